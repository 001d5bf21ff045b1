package main

import (
	"fmt"
	"io"
	"strings"
)

func (c *command) printSweep(s settings, swept *sweepResult) error {
	if s.json {
		return writeJSON(c.stdout, swept)
	}
	return writeSweepTable(c.stdout, swept)
}

// writeSweepTable prints a sweep for people: one row per run.
func writeSweepTable(w io.Writer, swept *sweepResult) error {
	var b strings.Builder
	b.WriteString(wrapped(swept.headline(), "", lineWidth))
	if swept.Partial {
		b.WriteString("PARTIAL: interrupted before the last run was over\n")
	}
	t := table{}
	t.row(swept.Sweep.head()...)
	for _, r := range swept.Sweep.Runs {
		t.row(swept.Sweep.cells(r)...)
	}
	t.write(&b)
	for _, e := range swept.examples() {
		b.WriteString(wrapped(e.Name+", for example: "+e.Text, "  ", lineWidth))
	}
	b.WriteByte('\n')
	for _, note := range swept.notes() {
		b.WriteString(wrapped(note, "  ", lineWidth))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headline says what was the same in all runs.
func (swept *sweepResult) headline() string {
	s := swept.Sweep
	text := fmt.Sprintf("Sweep over %s: one run of the closed loop per row", s.Over)
	if len(s.Runs) == 0 {
		return text + "; nothing was measured"
	}
	first := s.Runs[0]
	same := first.describeNodes()
	if s.Over == overNodes {
		same = fmt.Sprintf("%s nodes, %s", first.Inputs.Nodes, counted(first.Inputs.Callers, "caller"))
	}
	env := first.Environment
	return fmt.Sprintf("%s; %s; ttl %s%s; each measured for %s, after a warm-up of %s; %s, %s/%s, %s", text, same,
		milliText(first.Inputs.TTLMs), first.Inputs.lockText(), milliText(first.Inputs.DurationMs), milliText(first.Inputs.WarmUpMs),
		env.Go, env.OS, env.Arch, counted(env.CPUs, "CPU"))
}

// examples has one failure of each run that had any.
func (swept *sweepResult) examples() []example {
	var all []example
	for _, r := range swept.Sweep.Runs {
		if len(r.Failures) > 0 {
			f := r.Failures[0]
			all = append(all, example{fmt.Sprintf("%s %s: %s, %s", swept.Sweep.name(r), swept.Sweep.Over, f.Operation, f.Class), f.Example})
		}
	}
	return all
}

func (swept *sweepResult) notes() []string {
	if len(swept.Sweep.Runs) == 0 {
		return nil
	}
	return append([]string{"cycles/s: full cycles a second, those whose every call went well"}, swept.Sweep.Runs[0].Notes...)
}
