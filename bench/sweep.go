package main

import (
	"context"
	"fmt"
)

// sweepResult is all that a sweep has to say: -json prints it as it stands.
type sweepResult struct {
	Tool    string `json:"tool"`    // "redlock-bench"
	Format  int    `json:"format"`  // as of a single result; those have no field sweep
	Partial bool   `json:"partial"` // interrupted before the last run was over
	Sweep   sweep  `json:"sweep"`
}

// sweep is the same workload with one input that changes from run to run.
type sweep struct {
	Over string    `json:"over"` // "callers" (runs[].inputs.callers) or "nodes" (the length of runs[].nodes)
	Runs []*result `json:"runs"` // in growing order of that; a partial sweep has fewer, and its last can be partial
}

// value is what a run of the sweep stands for.
func (s sweep) value(r *result) int {
	if s.Over == overNodes {
		return len(r.Nodes)
	}
	return r.Inputs.Callers
}

// name is a run's value, as the tables show it.
func (s sweep) name(r *result) string {
	if r.Partial {
		return grouped(int64(s.value(r))) + " (partial)"
	}
	return grouped(int64(s.value(r)))
}

// cells are a run's row in the tables, under head.
func (s sweep) cells(r *result) []string {
	acquired := r.Results[acquire]
	return []string{s.name(r), rateText(r.Results[cycle].PerSecond), acquired.text(acquired.P50), acquired.text(acquired.P99),
		grouped(r.failedCalls())}
}

func (s sweep) head() []string {
	return []string{s.Over, "cycles/s", "acquire p50", "acquire p99", "failed calls"}
}

// locks is the number of locks that all runs acquired.
func (s sweep) locks() (n int64) {
	for _, r := range s.Runs {
		n += r.locks()
	}
	return n
}

// runSweep is the whole command with -sweep.
func (c *command) runSweep(ctx context.Context, s settings) int {
	swept, err := c.measureSweep(ctx, s)
	c.complain(err)
	if err != nil && len(swept.Sweep.Runs) == 0 {
		return exitNothing
	}
	printErr, missing := c.printSweep(s, swept), s.outputs.writeSweep(swept)
	c.complain(printErr)
	c.complain(missing)
	switch {
	case err == nil && printErr == nil && swept.Partial: // as of a single run, where a missing file comes second
		c.complain(fmt.Errorf("interrupted with %d of %d runs measured, at least in part: the sweep is partial", len(swept.Sweep.Runs), len(sweepValues[s.sweep])))
		return exitInterrupted
	case swept.Sweep.locks() == 0:
		c.complain(fmt.Errorf("no lock could be taken in any run: %s", swept.Sweep.Runs[0].firstFailure()))
		return exitNothing
	case err != nil, printErr != nil, missing != nil:
		return exitNothing
	}
	return exitMeasured
}

// measureSweep runs the load once per value, until ctx ends. What it measured before an error is returned with it.
func (c *command) measureSweep(ctx context.Context, s settings) (*sweepResult, error) {
	swept := &sweepResult{Tool: "redlock-bench", Format: format, Sweep: sweep{Over: s.sweep, Runs: []*result{}}}
	add := func(nodes *nodeSet, value int) error {
		r, err := c.measureOn(ctx, s.at(value), nodes)
		if err == nil && (!r.Partial || r.MeasuredMs > 0) { // an interrupted warm-up measured nothing
			swept.Sweep.Runs = append(swept.Sweep.Runs, r)
		}
		return err
	}
	err := c.eachValue(ctx, s, add)
	swept.Partial = ctx.Err() != nil
	return swept, err
}

// eachValue keeps the nodes for all values, unless they are what changes.
func (c *command) eachValue(ctx context.Context, s settings, run func(*nodeSet, int) error) error {
	values := sweepValues[s.sweep]
	if s.sweep == overCallers {
		return c.onNodes(s, func(nodes *nodeSet) error { return eachUntil(ctx, values, func(v int) error { return run(nodes, v) }) })
	}
	return eachUntil(ctx, values, func(v int) error {
		return c.onNodes(s.at(v), func(nodes *nodeSet) error { return run(nodes, v) })
	})
}

func eachUntil(ctx context.Context, values []int, run func(int) error) error {
	for _, v := range values {
		if ctx.Err() != nil {
			return nil
		}
		if err := run(v); err != nil {
			return err
		}
	}
	return nil
}
