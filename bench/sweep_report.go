package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed sweep.html.tmpl
var sweepText string

// sweepTemplate shares the style, the charts and the tables of the report of a single run.
var sweepTemplate = template.Must(template.Must(reportTemplate.Clone()).New("sweep").Parse(sweepText))

// sweepPage is what the template shows.
type sweepPage struct {
	Title, When, Banner, Headline string
	Charts                        []chart
	Table                         grid
	Examples                      []example
	Notes                         []string
	Inputs                        []fact // with the environment
}

func writeSweepReport(w io.Writer, swept *sweepResult) error {
	return sweepTemplate.Execute(w, sweepPageOf(swept))
}

func sweepPageOf(swept *sweepResult) sweepPage {
	s := swept.Sweep
	p := sweepPage{
		Title: "Throughput against " + s.Over, Headline: swept.headline(), Charts: both(s.chart),
		Table: grid{Head: s.head()}, Examples: swept.examples(), Notes: swept.notes(),
	}
	if swept.Partial {
		p.Banner = "Partial: interrupted before the last run was over."
	}
	for _, r := range s.Runs {
		p.Table.row(s.cells(r)...)
	}
	if len(s.Runs) > 0 {
		first := s.Runs[0]
		p.When = first.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		p.Inputs = append(facts(first.Inputs), facts(first.Environment)...)
	}
	return p
}

// axis has a tick at each value of the sweep, whatever of it was run: charts of partial sweeps keep their form.
func (s sweep) axis(from, until float64) (a axis, name string) {
	values := sweepValues[s.Over]
	a = axis{low: float64(values[0]), high: float64(values[len(values)-1]), from: from, until: until, log: s.Over == overCallers}
	for _, v := range values {
		a.ticks = append(a.ticks, tick{float64(v), grouped(int64(v))})
	}
	if a.log { // equal steps of callers are factors
		return a, s.Over + ", logarithmic scale"
	}
	return a, s.Over
}

// chart shows the full cycles a second of each run.
func (s sweep) chart(size size) chart {
	const left, right, top = 58.0, 34.0, 44.0
	bottom := top + panelHeight
	c := chart{ID: "sweep", Title: "Throughput against " + s.Over, Desc: s.describe(), Height: bottom + 44}
	most := 0.0
	for _, r := range s.Runs {
		most = max(most, r.Results[cycle].PerSecond)
	}
	scale := countAxis(int64(most+1), bottom, top, 24)
	for _, t := range scale.ticks {
		y := scale.at(t.value)
		c.line("grid", left, y, size.width-right, y)
		c.text("tick", "end", left-6, y+4, t.text)
	}
	over, name := s.axis(left+16, size.width-right)
	for _, t := range over.ticks {
		x := over.at(t.value)
		c.line("grid", x, top, x, bottom)
		c.text("tick", "middle", x, bottom+16, t.text)
	}
	c.text("axis", "start", 8, top-22, "full cycles a second")
	c.text("axis", "middle", (left+size.width)/2, bottom+36, name)
	c.throughput(s, over, scale)
	return c
}

// throughput draws the curve with a figure above each point.
func (c *chart) throughput(s sweep, over, scale axis) {
	var d strings.Builder
	for i, r := range s.Runs {
		rate := r.Results[cycle].PerSecond
		x, y := over.at(float64(s.value(r))), scale.at(rate)
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", command, x, y)
		c.text("figures", "middle", x, y-9, rateText(rate))
	}
	if len(s.Runs) == 0 {
		return
	}
	c.path("line p50", d.String())
	for _, r := range s.Runs {
		c.mark("p50", over.at(float64(s.value(r))), scale.at(r.Results[cycle].PerSecond))
	}
}

func (s sweep) describe() string {
	if len(s.Runs) == 0 {
		return "Nothing was measured."
	}
	var parts []string
	for _, r := range s.Runs {
		parts = append(parts, fmt.Sprintf("%s %s: %s full cycles a second", s.name(r), s.Over, rateText(r.Results[cycle].PerSecond)))
	}
	return strings.Join(parts, "; ") + "."
}
