package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeComparison prints what differs in the set-up before the figures: without that they mislead.
func writeComparison(w io.Writer, beforeName, afterName string, before, after *result) error {
	var b strings.Builder
	for _, one := range []struct {
		title, name string
		r           *result
	}{{"before", beforeName, before}, {"after ", afterName, after}} {
		b.WriteString(wrapped(fmt.Sprintf("%s %s: %s", one.title, one.name, setUp(one.r)), "", lineWidth))
	}
	writeDifferences(&b, differences(before, after))
	writeFigures(&b, before, after)
	b.WriteByte('\n')
	b.WriteString(wrapped("ratio: after / before; for latencies and failures less is better. Two runs of the same code differ too: "+
		"repeat both, in turns, before you believe a small difference", "  ", lineWidth))
	_, err := io.WriteString(w, b.String())
	return err
}

func setUp(r *result) string {
	return fmt.Sprintf("%s, %s, %s, ttl %s%s; %s; measured for %s", counted(len(r.Nodes), r.Inputs.Nodes+" node"),
		counted(r.Inputs.Callers, "caller"), counted(r.Inputs.Keys, "key"), milliText(r.Inputs.TTLMs), r.Inputs.lockText(),
		r.Started.UTC().Format(time.DateTime+" UTC"), milliText(r.MeasuredMs))
}

func writeDifferences(b *strings.Builder, found []difference) {
	if len(found) == 0 {
		b.WriteString("\nsame inputs and environment\n")
		return
	}
	b.WriteString("\nDIFFERENT SET-UP: the figures are not of the same thing\n")
	for _, d := range found {
		b.WriteString(wrapped(fmt.Sprintf("%s: %s → %s", d.Name, d.Before, d.After), "  ", lineWidth))
	}
}

func writeFigures(b *strings.Builder, before, after *result) {
	t := table{left: 2}
	t.row("", "", "before", "", "after", "ratio")
	for o := range operations {
		was, is := before.Results[o], after.Results[o]
		t.figure(o.String(), "per second", was.PerSecond, is.PerSecond, was.Count > 0, is.Count > 0, rateText)
		for _, l := range []struct {
			name    string
			was, is float64
		}{{"p50", was.P50, is.P50}, {"p99", was.P99, is.P99}, {"max", was.Max, is.Max}} {
			t.figure("", l.name, l.was, l.is, was.Count > 0, is.Count > 0, microText)
		}
	}
	if before.Floor != nil && after.Floor != nil {
		t.figure("floor", "p50", before.Floor.P50, after.Floor.P50, true, true, microText)
		t.figure("acquire", "p50 / floor", before.Floor.Ratio, after.Floor.Ratio, true, true, threeDigits)
	}
	t.write(b)
	writeFailureShares(b, before, after)
}

// figure adds a row; what was not measured on one side is a dash, and so is the ratio.
func (t *table) figure(subject, name string, was, is float64, hasWas, hasIs bool, text func(float64) string) {
	cells := []string{subject, name, "-", "→", "-", "-"}
	if hasWas {
		cells[2] = text(was)
	}
	if hasIs {
		cells[4] = text(is)
	}
	if hasWas && hasIs && was > 0 {
		cells[5] = threeDigits(is/was) + " ×"
	}
	t.row(cells...)
}

// rateText keeps the tenths of a rate that is all tenths.
func rateText(rate float64) string {
	if rate < 100 {
		return threeDigits(rate)
	}
	return grouped(int64(rate + 0.5))
}

// writeFailureShares compares shares, not counts: the runs may differ in length.
func writeFailureShares(b *strings.Builder, before, after *result) {
	type kind struct{ operation, class string }
	var kinds []kind
	known := map[kind]bool{}
	for _, r := range []*result{before, after} {
		for _, f := range r.Failures {
			if k := (kind{f.Operation, f.Class}); !known[k] {
				known[k] = true
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) == 0 {
		b.WriteString("\nno failures in either\n")
		return
	}
	t := table{left: 2}
	t.row("failures", "", "before", "", "after", "ratio")
	for _, k := range kinds {
		was, wasShare := before.failureShare(k.operation, k.class)
		is, isShare := after.failureShare(k.operation, k.class)
		ratio := "-"
		if wasShare > 0 {
			ratio = threeDigits(isShare/wasShare) + " ×"
		}
		t.row(k.operation, k.class, was, "→", is, ratio)
	}
	t.write(b)
}

// failureShare gives the failures of a kind as text and as a share of all calls of that operation.
func (r *result) failureShare(operation, class string) (string, float64) {
	var calls, failures int64
	for _, op := range r.Results {
		if op.Operation == operation {
			calls += op.Count
		}
	}
	for _, f := range r.Failures {
		if f.Operation != operation {
			continue
		}
		calls += f.Count
		if f.Class == class {
			failures += f.Count
		}
	}
	if calls == 0 {
		return "-", 0
	}
	share := float64(failures) / float64(calls)
	return fmt.Sprintf("%s (%s)", grouped(failures), percentText(share)), share
}

// percentText shows no share above 0 as nothing and none below 1 as everything.
func percentText(share float64) string {
	switch {
	case share == 0 || share == 1:
		return fmt.Sprintf("%g %%", 100*share)
	case share < 0.0001:
		return "< 0.01 %"
	case share > 0.9999:
		return "> 99.99 %"
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}
