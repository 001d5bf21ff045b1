package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// moments is how many pieces of the time line are drawn at most: more would be a smear.
func (s size) moments() int { return int(s.width / 2.5) }

// coarsened joins neighbours until there are few enough. It keeps the worst p99 and the longest of those joined, and the
// median of their medians: a picture may hide how often something was slow, not that it was.
func coarsened(line []moment, most int) []moment {
	if len(line) <= most {
		return line
	}
	each := (len(line) + most - 1) / most
	var joined []moment
	for part := range slices.Chunk(line, each) {
		m := moment{FromMs: part[0].FromMs, ToMs: part[len(part)-1].ToMs}
		var medians []float64
		for _, p := range part {
			m.Acquired += p.Acquired
			m.Failed += p.Failed
			m.P99, m.Max = max(m.P99, p.P99), max(m.Max, p.Max)
			if p.Acquired > 0 {
				medians = append(medians, p.P50)
			}
		}
		if len(medians) > 0 {
			slices.Sort(medians)
			m.P50 = medians[len(medians)/2]
		}
		joined = append(joined, m)
	}
	return joined
}

// shaded is a fault as the chart shows it.
type shaded struct {
	Mark         string // "F1", as in the list beside the chart
	From, To     float64
	Text         string
	Done, Moment bool // Moment: it is over at once
}

// shadedFaults numbers the faults. One without an end lasts until the end.
func (r *result) shadedFaults(end float64) []shaded {
	var all []shaded
	for i, f := range r.Faults {
		s := shaded{Mark: fmt.Sprintf("F%d", i+1), From: f.FromMs, To: f.ToMs, Done: f.Error == ""}
		s.Moment = s.To == s.From
		if s.To < s.From {
			s.To = end
		}
		when := fmt.Sprintf("from %s to %s", secondsText(s.From), secondsText(s.To))
		if s.Moment {
			when = "at " + secondsText(s.From)
		}
		s.Text = fmt.Sprintf("%s on %s, %s", f.Fault, f.Node, when)
		if !s.Done {
			s.Text = fmt.Sprintf("%s on %s could not be done: %s", f.Fault, f.Node, f.Error)
		}
		all = append(all, s)
	}
	return all
}

func secondsText(millis float64) string { return solid(fmt.Sprintf("%.1f s", millis/1e3)) }

const (
	panelHeight  = 220.0
	barsHeight   = 72.0
	timelineLeft = 58.0
	lanes        = 3 // of fault marks above the panel
)

// timelineChart has two panels over one time axis: latencies of granted acquires, and failed ones.
func (r *result) timelineChart(s size) chart {
	line := coarsened(r.Timeline, s.moments())
	end := line[len(line)-1].ToMs
	faults := r.shadedFaults(end)
	c := chart{ID: "timeline", Title: "Latency and failures of acquires over time", Desc: describeTimeline(r, line, faults)}
	over := timeAxis(end, timelineLeft, s.width-12, 64)
	top := 44.0
	if len(faults) > 0 {
		top += 16 * lanes
	}
	barsTop := top + panelHeight + 34
	bottom := barsTop + barsHeight
	c.Height = bottom + 44
	c.timelineLegend()
	c.shade(over, faults, top, bottom)
	for _, t := range over.ticks {
		x := over.at(t.value)
		c.line("grid", x, top, x, top+panelHeight)
		c.line("grid", x, barsTop, x, bottom)
		c.text("tick", anchorIn(x, s.width), x, bottom+16, t.text)
	}
	c.latencyPanel(s, over, line, top)
	c.failurePanel(s, over, line, barsTop)
	c.text("axis", "middle", (timelineLeft+s.width)/2, bottom+36, "time since the end of the warm-up")
	return c
}

func (c *chart) timelineLegend() {
	x := 8.0
	for _, name := range []string{"p50", "p99", "max"} {
		c.line("line "+name, x, 11, x+24, 11)
		c.text("legend", "start", x+30, 15, name)
		x += 80
	}
}

// shade draws the faults behind both panels. Those that overlap have one area: their colours would add up.
func (c *chart) shade(over axis, faults []shaded, top, bottom float64) {
	var done []shaded
	for _, f := range faults {
		if f.Done {
			done = append(done, f)
		}
	}
	slices.SortStableFunc(done, func(a, b shaded) int { return cmp.Compare(a.From, b.From) })
	covered := 0.0
	for _, f := range done {
		from, to := over.at(f.From), over.at(f.To)
		if end := max(to, from+2); end > covered {
			c.area("fault", max(from, covered), top, end-max(from, covered), bottom-top)
			covered = end
		}
		c.line("fault-edge", from, top-2, from, bottom)
		if !f.Moment {
			c.line("fault-edge", to, top-2, to, bottom)
		}
	}
	c.faultMarks(over, done, top)
}

// faultMarks sets the marks in lanes, so that they do not cover each other. Where there is no room for another, the
// list beside the chart has to do.
func (c *chart) faultMarks(over axis, faults []shaded, top float64) {
	var free [lanes]float64
	for _, f := range faults {
		width := boldLetter*float64(len(f.Mark)) + 4
		x := min(over.at(f.From), over.until-width)
		lane := slices.IndexFunc(free[:], func(end float64) bool { return end <= x })
		if lane < 0 {
			continue
		}
		free[lane] = x + width
		c.text("fault-text", "start", x, top-6-16*float64(lane), f.Mark)
	}
}

func (c *chart) latencyPanel(s size, over axis, line []moment, top float64) {
	low, high := 0.0, 0.0
	for _, m := range line {
		if m.Acquired > 0 && (low == 0 || m.P50 < low) {
			low = m.P50
		}
		high = max(high, m.Max)
	}
	c.text("axis", "start", 8, top-6-extraLanes(top), "latency of granted acquires, logarithmic scale")
	if high == 0 {
		c.line("grid", timelineLeft, top+panelHeight, s.width-12, top+panelHeight)
		c.text("figures", "middle", (timelineLeft+s.width)/2, top+panelHeight/2, "no acquire was granted")
		return
	}
	scale := latencyAxis(low, high, top+panelHeight, top, 20)
	for _, t := range scale.ticks {
		y := scale.at(t.value)
		c.line("grid", timelineLeft, y, s.width-12, y)
		c.text("tick", "end", timelineLeft-6, y+4, t.text)
	}
	for _, curve := range []struct {
		class string
		of    func(moment) float64
	}{
		{"max", func(m moment) float64 { return m.Max }},
		{"p99", func(m moment) float64 { return m.P99 }},
		{"p50", func(m moment) float64 { return m.P50 }},
	} {
		c.path("line "+curve.class, curvePath(over, scale, line, curve.of))
	}
}

// extraLanes puts the panel's name above the fault marks.
func extraLanes(top float64) float64 {
	if top > 44 {
		return 16 * lanes
	}
	return 0
}

// curvePath is broken where nothing was granted: a line through there would tell of latencies that nobody had.
func curvePath(over, scale axis, line []moment, of func(moment) float64) string {
	var d strings.Builder
	drawn := false
	for i, m := range line {
		if m.Acquired == 0 {
			drawn = false
			continue
		}
		x, y := over.at((m.FromMs+m.ToMs)/2), scale.at(of(m))
		alone := !drawn && (i+1 == len(line) || line[i+1].Acquired == 0)
		switch {
		case alone: // a point needs some length to be seen
			fmt.Fprintf(&d, "M%.1f %.1fL%.1f %.1f", x-1.5, y, x+1.5, y)
		case drawn:
			fmt.Fprintf(&d, "L%.1f %.1f", x, y)
		default:
			fmt.Fprintf(&d, "M%.1f %.1f", x, y)
		}
		drawn = true
	}
	return d.String()
}

func (c *chart) failurePanel(s size, over axis, line []moment, top float64) {
	var most int64
	for _, m := range line {
		most = max(most, m.Failed)
	}
	c.text("axis", "start", 8, top-8, "failed acquires in each "+milliText(line[0].ToMs-line[0].FromMs))
	if most == 0 {
		c.line("grid", timelineLeft, top+barsHeight, s.width-12, top+barsHeight)
		c.text("figures", "middle", (timelineLeft+s.width)/2, top+barsHeight/2+4, "none failed")
		return
	}
	scale := countAxis(most, top+barsHeight, top, 24)
	for _, t := range scale.ticks {
		y := scale.at(t.value)
		c.line("grid", timelineLeft, y, s.width-12, y)
		c.text("tick", "end", timelineLeft-6, y+4, t.text)
	}
	for _, m := range line {
		if m.Failed == 0 {
			continue
		}
		from, to := over.at(m.FromMs), over.at(m.ToMs)
		y := min(scale.at(float64(m.Failed)), scale.from-2)                                                         // a single failure among thousands is still seen
		c.path("failed", fmt.Sprintf("M%.1f %.1fH%.1fV%.1fH%.1fZ", from, scale.from, max(to-0.5, from+1), y, from)) // over the grid
	}
}

func describeTimeline(r *result, line []moment, faults []shaded) string {
	var worst moment
	var granted, failures int64
	for _, m := range line {
		granted += m.Acquired
		failures += m.Failed
		if m.Max > worst.Max {
			worst = m
		}
	}
	parts := []string{fmt.Sprintf("%s granted and %s failed acquires", grouped(granted), grouped(failures))}
	if granted > 0 {
		parts = append(parts, fmt.Sprintf("the longest took %s, between %s and %s", microText(worst.Max), secondsText(worst.FromMs), secondsText(worst.ToMs)))
	}
	for _, f := range faults {
		parts = append(parts, f.Mark+": "+f.Text)
	}
	return strings.Join(parts, "; ") + "."
}
