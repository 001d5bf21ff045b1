package main

import (
	_ "embed"
	"html/template"
	"io"
	"time"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// page is what the template shows: texts and drawings, nothing left to decide.
type page struct {
	Title    string
	Headline []string // sentences
	Banner   string   // why the figures do not tell all; "" where they do
	Tiles    []tile
	When     string

	Operations      []chart
	OperationsTable grid
	Failures        grid
	Examples        []example

	Timeline     []chart
	TimelineNote string
	Faults       []shaded

	Floor      string
	NodeCharts []chart
	NodesTable grid
	Silent     []example // nodes that did not answer

	Advice []advice
	Notes  []string
	Inputs []fact
	Around []fact // the environment
}

// tile is a figure that stands out.
type tile struct{ Name, Value string }

type example struct{ Name, Text string }

// grid is a table. On a narrow screen every row becomes a card whose cells bear the names of their columns.
type grid struct {
	Head []string
	Rows [][]cell
}

type cell struct{ Column, Text string }

func (g *grid) row(cells ...string) {
	var row []cell
	for i, text := range cells {
		row = append(row, cell{g.Head[i], text})
	}
	g.Rows = append(g.Rows, row)
}

// writeReport writes one HTML page that needs nothing else: no script, no font, no network.
func writeReport(w io.Writer, r *result) error { return reportTemplate.Execute(w, pageOf(r)) }

func pageOf(r *result) page {
	p := page{
		Title:           r.title(),
		Headline:        r.headline(),
		Banner:          r.banner(),
		Tiles:           r.tiles(),
		When:            r.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
		Operations:      both(r.operationsChart),
		OperationsTable: r.operationsGrid(),
		Failures:        r.failuresGrid(),
		Floor:           r.floorSentence(),
		NodesTable:      r.nodesGrid(),
		Advice:          advise(r),
		Notes:           r.Notes,
		Inputs:          facts(r.Inputs),
		Around:          append(facts(r.Environment), fact{"format of the result", grouped(int64(r.Format))}),
	}
	for _, f := range r.Failures {
		p.Examples = append(p.Examples, example{f.Operation + ", " + f.Class, f.Example})
	}
	for _, n := range r.Nodes {
		if n.Failures > 0 || n.Error != "" {
			p.Silent = append(p.Silent, example{n.Node, n.Error})
		}
	}
	if len(r.Nodes) > 0 {
		p.NodeCharts = both(r.nodesChart)
	}
	end := r.MeasuredMs
	if len(r.Timeline) > 0 {
		end = r.Timeline[len(r.Timeline)-1].ToMs
		p.Timeline = both(r.timelineChart)
		p.TimelineNote = r.coarsenedNote()
	}
	p.Faults = r.shadedFaults(end)
	return p
}

func (r *result) operationsGrid() grid {
	g := grid{Head: []string{"operation", "count", "per second", "p50", "p90", "p99", "p99.9", "max"}}
	for _, op := range r.Results {
		g.row(append([]string{op.Operation, grouped(op.Count), rateText(op.PerSecond)}, op.columns()...)...)
	}
	return g
}

func (r *result) failuresGrid() grid {
	g := grid{Head: []string{"failed", "count", "share", "p50", "p90", "p99", "p99.9", "max"}}
	for _, f := range r.Failures {
		_, share := r.failureShare(f.Operation, f.Class)
		g.row(append([]string{f.Operation + ", " + f.Class, grouped(f.Count), percentText(share)}, f.columns()...)...)
	}
	return g
}

func (r *result) nodesGrid() grid {
	g := grid{Head: []string{"node", "server", "pings", "failed", "p50", "p90", "p99", "p99.9", "max"}}
	for _, n := range r.Nodes {
		g.row(append([]string{n.Node, n.Version, grouped(n.Ping.Count), grouped(n.Failures)}, n.Ping.columns()...)...)
	}
	return g
}

// coarsenedNote says what a point stands for where it can be more than one piece of the time line.
func (r *result) coarsenedNote() string {
	if len(r.Timeline) <= narrow.moments() {
		return ""
	}
	return "Where the screen has no room for every piece of the time line, a point stands for several: " +
		"it shows the largest p99 and max of them, and the median of their p50s."
}

// started is the day of a run.
func started(r *result) string { return r.Started.UTC().Format(time.DateOnly) }
