package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const lineWidth = 80 // nothing but a long word makes a line longer

// writeTable prints the result for people.
func writeTable(w io.Writer, r *result) error {
	var b strings.Builder
	writeHead(&b, r)
	writeOperations(&b, r)
	writeSchedule(&b, r)
	writeContention(&b, r)
	writeFailures(&b, r)
	writeFaults(&b, r)
	writeNodes(&b, r)
	writeFloor(&b, r)
	writeAdvice(&b, r)
	b.WriteByte('\n')
	for _, note := range r.Notes {
		b.WriteString(wrapped(note, "  ", lineWidth))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeHead(b *strings.Builder, r *result) {
	in, env := r.Inputs, r.Environment
	fmt.Fprintf(b, "%s: quorum %d\n", r.describeNodes(), r.Quorum)
	b.WriteString(wrapped(fmt.Sprintf("%s, %s, ttl %s%s; %s, %s/%s, %s",
		counted(in.Callers, "caller"), counted(in.Keys, "key"), milliText(in.TTLMs), in.lockText(),
		env.Go, env.OS, env.Arch, counted(env.CPUs, "CPU")), "", lineWidth))
	fmt.Fprintf(b, "%s; measured for %s, after a warm-up of %s\n",
		in.loopText(), milliText(r.MeasuredMs), milliText(in.WarmUpMs))
	if r.Partial {
		fmt.Fprintf(b, "PARTIAL: interrupted after %s of %s\n", milliText(r.MeasuredMs), milliText(in.DurationMs))
	}
}

func (r *result) describeNodes() string {
	n := len(r.Nodes)
	switch r.Inputs.Nodes {
	case "embedded":
		return counted(n, "embedded node") + " (in this process: no network, no real servers)"
	case "spawned":
		return counted(n, "spawned node") + " (redis-server processes on this machine)"
	}
	return counted(n, "node")
}

func writeOperations(b *strings.Builder, r *result) {
	t := table{left: 1}
	t.row("", "count", "rate/s", "p50", "p90", "p99", "p99.9", "max")
	for _, op := range r.Results {
		row := []string{op.Operation, grouped(op.Count), grouped(int64(op.PerSecond + 0.5))}
		t.row(append(row, op.columns()...)...)
	}
	t.write(b)
}

func writeFailures(b *strings.Builder, r *result) {
	if len(r.Failures) == 0 {
		b.WriteString("\nno failures\n")
		return
	}
	t := table{left: 2}
	t.row("failures", "", "count", "p50", "p90", "p99", "p99.9", "max")
	for _, f := range r.Failures {
		t.row(append([]string{f.Operation, f.Class, grouped(f.Count)}, f.columns()...)...)
	}
	t.write(b)
	for _, f := range r.Failures {
		fmt.Fprintf(b, "  %s, %s, for example:\n", f.Operation, f.Class)
		b.WriteString(wrapped(f.Example, "    ", lineWidth))
	}
}

func writeNodes(b *strings.Builder, r *result) {
	t := table{left: 2}
	t.row("node", "", "pings", "p50", "p99", "failed")
	for _, n := range r.Nodes {
		t.row(n.Node, n.Version, grouped(n.Ping.Count), n.Ping.text(n.Ping.P50), n.Ping.text(n.Ping.P99), grouped(n.Failures))
	}
	t.write(b)
	for _, n := range r.Nodes {
		if n.Failures > 0 || n.Error != "" {
			b.WriteString(wrapped(fmt.Sprintf("no answer from %s: %s", n.Node, n.Error), "  ", lineWidth))
		}
	}
}

func writeFloor(b *strings.Builder, r *result) {
	b.WriteByte('\n')
	if r.Floor == nil {
		b.WriteString("floor: unknown, for want of answers\n")
		return
	}
	f := r.Floor
	distance := microText(f.Over) + " above"
	if f.Over < 0 {
		distance = microText(-f.Over) + " below"
	}
	fmt.Fprintf(b, "floor    %s  p50 of the %s fastest node's pings; a quorum waits for it\n",
		pad(microText(f.P50), 7), ordinal(r.Quorum))
	b.WriteString(wrapped("that node is "+r.roundTripText(f.Node), strings.Repeat(" ", len("floor    ")), lineWidth))
	fmt.Fprintf(b, "acquire  %s  p50, %s the floor: %.2f times as long\n",
		pad(microText(r.Results[acquire].P50), 7), distance, f.Ratio)
}

func (l latencies) columns() []string {
	return []string{l.text(l.P50), l.text(l.P90), l.text(l.P99), l.text(l.P999), l.text(l.Max)}
}

// text shows one of l's figures, or a dash where nothing was counted.
func (l latencies) text(micros float64) string {
	if l.Count == 0 {
		return "-"
	}
	return microText(micros)
}

// table aligns its first columns left and the others right.
type table struct {
	left int
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			if i < t.left {
				fmt.Fprintf(&line, "%-*s", widths[i], cell)
			} else {
				line.WriteString(pad(cell, widths[i]))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func pad(text string, width int) string { return fmt.Sprintf("%*s", width, text) }

// microText shows microseconds, not negative, with three digits and a unit.
func microText(micros float64) string {
	switch {
	case micros < 999.5:
		return threeDigits(micros) + " µs"
	case micros < 999_500:
		return threeDigits(micros/1e3) + " ms"
	}
	return threeDigits(micros/1e6) + " s"
}

// milliText shows milliseconds, whole ones without further digits: they come from flags.
func milliText(millis float64) string {
	switch d := time.Duration(millis * 1e6); {
	case d >= time.Minute:
		return shortDuration(d.Round(time.Second))
	case d > 0 && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Second && d%time.Millisecond == 0:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return microText(millis * 1e3)
}

func threeDigits(x float64) string {
	switch {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

// grouped sets a comma between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(int64(n)) + " " + noun + "s"
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// wrapped breaks text between words, each line indented, so that no line is longer than width if its words allow.
func wrapped(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
