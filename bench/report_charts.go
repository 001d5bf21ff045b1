package main

import (
	"fmt"
	"math"
	"strings"
)

// chart is a drawing in SVG user units, which are pixels where it is shown at its own size. The template draws
// areas first, then paths and texts, so that nothing hides a figure. Colours come from the page's style sheet by
// class: that is what makes light and dark work.
type chart struct {
	ID, Class     string
	Title, Desc   string // what a screen reader says instead
	Width, Height float64
	Areas         []area
	Paths         []shape
	Texts         []label
}

type area struct {
	Class               string
	X, Y, Width, Height float64
}

type shape struct{ Class, D string }

type label struct {
	Class, Anchor string // Anchor: start, middle or end
	X, Y          float64
	Text          string
}

// size is one of the two widths that every chart is drawn in: a drawing that is scaled down to a telephone
// has letters that nobody can read.
type size struct {
	class string
	width float64
}

var (
	wide   = size{"wide", 880}
	narrow = size{"narrow", 350}
)

// both draws a chart in both sizes; the style sheet shows the one that fits.
func both(draw func(size) chart) []chart {
	charts := []chart{draw(wide), draw(narrow)}
	for i, s := range []size{wide, narrow} {
		charts[i].ID += "-" + s.class
		charts[i].Class, charts[i].Width = s.class, s.width
	}
	return charts
}

func (c *chart) area(class string, x, y, width, height float64) {
	c.Areas = append(c.Areas, area{class, tenths(x), tenths(y), tenths(width), tenths(height)})
}

func (c *chart) line(class string, x1, y1, x2, y2 float64) {
	c.path(class, fmt.Sprintf("M%.1f %.1fL%.1f %.1f", x1, y1, x2, y2))
}

func (c *chart) path(class, d string) { c.Paths = append(c.Paths, shape{class, d}) }

func (c *chart) text(class, anchor string, x, y float64, text string) {
	c.Texts = append(c.Texts, label{class, anchor, tenths(x), tenths(y), text})
}

// mark draws a percentile's sign. They differ in form, not in colour alone.
func (c *chart) mark(kind string, x, y float64) {
	at := func(format string, offsets ...float64) string {
		coordinates := make([]any, len(offsets))
		for i, offset := range offsets {
			coordinates[i] = offset + x
			if i%2 == 1 {
				coordinates[i] = offset + y
			}
		}
		return fmt.Sprintf(format, coordinates...)
	}
	d := ""
	switch kind {
	case "p50":
		d = at("M%.1f %.1f", -4.5, 0) + "a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z"
	case "p90":
		d = at("M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ", -1.5, -6, 1.5, -6, 1.5, 6, -1.5, 6)
	case "p99":
		d = at("M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ", 0, -6, 6, 0, 0, 6, -6, 0)
	case "p99.9":
		d = at("M%.1f %.1fL%.1f %.1fL%.1f %.1fZ", 0, -5.5, 5.5, 4.5, -5.5, 4.5)
	case "max":
		d = at("M%.1f %.1fL%.1f %.1fM%.1f %.1fL%.1f %.1f", -4, -4, 4, 4, -4, 4, 4, -4)
	}
	class := "mark"
	if kind == "max" {
		class = "cross"
	}
	c.path(class, d)
}

// axis maps values to a stretch of the drawing.
type axis struct {
	low, high   float64
	from, until float64 // where they are drawn; until < from for a vertical one
	log         bool
	ticks       []tick
}

type tick struct {
	value float64
	text  string
}

func (a axis) at(value float64) float64 {
	low, high := a.low, a.high
	value = min(max(value, low), high)
	if a.log {
		low, high, value = math.Log10(low), math.Log10(high), math.Log10(value)
	}
	return a.from + (a.until-a.from)*(value-low)/(high-low)
}

// latencyAxis has a logarithmic scale, since one axis has to show a median and a stall. It begins and ends at a
// tick. Room is the least distance of ticks.
func latencyAxis(low, high, from, until, room float64) axis {
	low = max(low, 0.1) // µs; recorded is no less
	high = max(high, low)
	a := axis{low: stepBelow(low), high: stepAbove(high), from: from, until: until, log: true}
	if a.high <= a.low {
		a.high = stepAbove(a.low * 1.5)
	}
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		a.ticks = nil
		for decade := math.Floor(math.Log10(a.low)); decade <= math.Ceil(math.Log10(a.high)); decade++ {
			for _, step := range steps {
				if v := step * math.Pow(10, decade); v >= a.low*0.999 && v <= a.high*1.001 {
					a.ticks = append(a.ticks, tick{v, shortMicros(v)})
				}
			}
		}
		if a.spaced(room) && len(a.ticks) >= 2 {
			break
		}
	}
	return a
}

func (a axis) spaced(room float64) bool {
	for i := 1; i < len(a.ticks); i++ {
		if math.Abs(a.at(a.ticks[i].value)-a.at(a.ticks[i-1].value)) < room {
			return false
		}
	}
	return true
}

// stepBelow and stepAbove are the nearest of 1, 2, 5, 10, 20 and so on.
func stepBelow(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, step := range []float64{5, 2} {
		if step*decade <= v*1.000001 {
			return step * decade
		}
	}
	return decade
}

func stepAbove(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, step := range []float64{1, 2, 5} {
		if step*decade >= v*0.999999 {
			return step * decade
		}
	}
	return 10 * decade
}

// timeAxis is in milliseconds, its ticks in a unit that suits the length.
func timeAxis(end, from, until, room float64) axis {
	a := axis{low: 0, high: max(end, 1), from: from, until: until}
	unit, name := 1.0, "ms"
	for _, u := range []struct {
		millis float64
		name   string
	}{{1e3, "s"}, {60e3, "min"}, {3600e3, "h"}} {
		if a.high >= 3*u.millis || u.name == "s" && a.high >= 1e3 {
			unit, name = u.millis, u.name
		}
	}
	a.ticks = linearTicks(a, unit, room, func(v float64) string { return fmt.Sprintf("%g %s", v, name) })
	return a
}

// countAxis begins at 0.
func countAxis(most int64, from, until, room float64) axis {
	a := axis{low: 0, high: stepAbove(max(float64(most), 1)), from: from, until: until}
	a.ticks = linearTicks(a, 1, room, func(v float64) string { return grouped(int64(v)) })
	return a
}

// linearTicks takes the smallest round step, in units, that keeps ticks apart; a count has no step below 1.
func linearTicks(a axis, unit, room float64, text func(float64) string) []tick {
	perUnit := math.Abs(a.until-a.from) / (a.high - a.low) * unit
	step := stepAbove(room / perUnit)
	if unit == 1 {
		step = max(step, 1)
	}
	var ticks []tick
	for n := 0.0; n*step*unit <= a.high*1.0001; n++ {
		v := math.Round(n*step*1e6) / 1e6
		ticks = append(ticks, tick{v * unit, text(v)})
	}
	return ticks
}

// shortMicros is a tick's text: no digits beyond those it needs.
func shortMicros(micros float64) string {
	text := func(v float64) string {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
	}
	switch {
	case micros < 999.5:
		return text(micros) + " µs"
	case micros < 999_500:
		return text(micros/1e3) + " ms"
	}
	return text(micros/1e6) + " s"
}

// shortened cuts the middle out of a text that has no room.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	head := (most - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(most-1-head):])
}
