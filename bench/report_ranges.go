package main

import (
	"fmt"
	"slices"
	"strings"
)

// rangeRow is one line of a chart of ranges: a name and its latencies from p50 to the longest.
type rangeRow struct {
	Name    string
	Missing string // instead of latencies that were not counted
	latencies
}

// reference is a latency that all rows are to be compared with.
type reference struct {
	Class, Name string
	At          float64 // µs
}

const (
	letter     = 7.0 // the width of a letter of the charts' text, on the safe side
	boldLetter = 8.5
	rowStep    = 44.0
)

// drawRanges sets the rows below each other: a thick line from p50 to p99, a thin one to the longest.
func drawRanges(s size, c chart, axisName string, rows []rangeRow, references []reference) chart {
	const left, right = 8.0, 14.0
	top := 30 + 18*float64(len(references))
	bottom := top + rowStep*float64(len(rows))
	c.Height = bottom + 44
	scale := rangesAxis(rows, references, left, s.width-right)
	for _, t := range scale.ticks {
		x := scale.at(t.value)
		c.line("grid", x, top, x, bottom)
		c.text("tick", anchorIn(x, s.width), x, bottom+16, t.text)
	}
	c.text("axis", "middle", s.width/2, bottom+36, axisName)
	c.rangesLegend()
	for i, ref := range references {
		x, y := scale.at(ref.At), 44+18*float64(i)
		c.line("reference "+ref.Class, x, y+4, x, bottom)
		anchor, text := "start", ref.Name+" "+microText(ref.At)
		if x > s.width/2 {
			anchor = "end"
		}
		c.text("reference-text "+ref.Class, anchor, x, y, text)
	}
	for i, row := range rows {
		c.rangeRow(s, scale, top+rowStep*float64(i), row)
	}
	c.Desc = describeRanges(rows, references)
	return c
}

func rangesAxis(rows []rangeRow, references []reference, from, until float64) axis {
	var all []float64
	for _, row := range rows {
		if row.Count > 0 {
			all = append(all, row.P50, row.P90, row.P99, row.P999, row.Max)
		}
	}
	for _, ref := range references {
		all = append(all, ref.At)
	}
	if len(all) == 0 {
		all = []float64{1000} // an axis without anything on it
	}
	return latencyAxis(slices.Min(all), slices.Max(all), from, until, 56)
}

func anchorIn(x, width float64) string {
	switch {
	case x < 24:
		return "start"
	case x > width-24:
		return "end"
	}
	return "middle"
}

func (c *chart) rangesLegend() {
	x := 10.0
	for _, kind := range []string{"p50", "p90", "p99", "p99.9", "max"} {
		c.mark(kind, x, 12)
		c.text("legend", "start", x+10, 16, kind)
		x += 30 + letter*float64(len(kind)+1)
	}
}

func (c *chart) rangeRow(s size, scale axis, y float64, row rangeRow) {
	figures := row.Missing
	if row.Count > 0 {
		figures = "p50 " + microText(row.P50) + ", p99 " + microText(row.P99)
	}
	room := (s.width - 36 - letter*float64(len([]rune(figures)))) / boldLetter
	c.text("row", "start", 8, y+14, shortened(row.Name, max(int(room), 8)))
	c.text("figures", "end", s.width-14, y+14, figures)
	if row.Count == 0 {
		return
	}
	middle := y + 28
	c.line("thin", scale.at(row.P50), middle, scale.at(row.Max), middle)
	c.line("thick", scale.at(row.P50), middle, scale.at(row.P99), middle)
	c.mark("max", scale.at(row.Max), middle)
	c.mark("p99.9", scale.at(row.P999), middle)
	c.mark("p99", scale.at(row.P99), middle)
	c.mark("p90", scale.at(row.P90), middle)
	c.mark("p50", scale.at(row.P50), middle)
}

func describeRanges(rows []rangeRow, references []reference) string {
	var parts []string
	for _, row := range rows {
		if row.Count == 0 {
			parts = append(parts, row.Name+": "+row.Missing)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s: p50 %s, p90 %s, p99 %s, p99.9 %s, longest %s", row.Name,
			microText(row.P50), microText(row.P90), microText(row.P99), microText(row.P999), microText(row.Max)))
	}
	for _, ref := range references {
		parts = append(parts, ref.Name+": "+microText(ref.At))
	}
	return strings.Join(parts, "; ") + "."
}

func (r *result) operationsChart(s size) chart {
	var rows []rangeRow
	for _, op := range r.Results {
		rows = append(rows, rangeRow{Name: op.Operation, Missing: "none went well", latencies: op.latencies})
	}
	return drawRanges(s, chart{ID: "operations", Title: "Latency of each operation"}, "latency, logarithmic scale", rows, nil)
}

// nodesChart sets the nodes against the floor, and the acquire's median beside it.
func (r *result) nodesChart(s size) chart {
	var rows []rangeRow
	for _, n := range r.Nodes {
		rows = append(rows, rangeRow{Name: n.Node, Missing: "no answer", latencies: n.Ping})
	}
	var references []reference
	if r.Floor != nil {
		references = []reference{
			{"floor", "floor", r.Floor.P50},
			{"acquire", "acquire p50", r.Results[acquire].P50},
		}
	}
	return drawRanges(s, chart{ID: "nodes", Title: "Round trip to each node"}, "round trip of a PING, logarithmic scale", rows, references)
}
