package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A table is rendered in Markdown with padded cells: readable in a terminal and in a document.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// render aligns the first column left and the others right, where numbers are compared.
func (t *table) render(out io.Writer) {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	writeRow(out, t.header, widths)
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
		if i > 0 {
			rule[i] = rule[i][1:] + ":"
		}
	}
	writeRow(out, rule, widths)
	for _, row := range t.rows {
		writeRow(out, row, widths)
	}
}

func writeRow(out io.Writer, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i == 0 {
			line.WriteString("| " + cell + padding + " |")
		} else {
			line.WriteString(" " + padding + cell + " |")
		}
	}
	fmt.Fprintln(out, line.String())
}

// The en dash keeps a range apart from a minus sign.
func (s spread) format(one func(float64) string) string {
	switch {
	case s.rounds == 0:
		return "none"
	case s.rounds == 1:
		return one(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", one(s.median), one(s.low), one(s.high))
}

// formatKilobytes leaves the range out: it is narrow.
func formatKilobytes(s spread) string {
	if s.rounds == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f kB", s.median/1e3)
}

// formatRate keeps a decimal only where it carries something.
func formatRate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

func formatRatio(r float64) string {
	if r < 10 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.1f", r)
}

// formatSeconds shows about three digits in the unit that suits.
func formatSeconds(seconds float64) string {
	switch {
	case seconds < 999.5e-6:
		return fmt.Sprintf("%.0f µs", seconds*1e6)
	case seconds < 9.995e-3:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	case seconds < 99.95e-3:
		return fmt.Sprintf("%.1f ms", seconds*1e3)
	case seconds < 999.5e-3:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.2f s", seconds)
}
