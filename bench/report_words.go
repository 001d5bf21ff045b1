package main

import (
	"fmt"
	"strings"
)

func (r *result) title() string {
	return fmt.Sprintf("%s, %s, %s: what a lock costs", counted(len(r.Nodes), strings.TrimPrefix(r.Inputs.Nodes, "given")+" node"),
		counted(r.Inputs.Callers, "caller"), started(r))
}

// solid keeps a number and its unit on one line.
func solid(text string) string { return strings.ReplaceAll(text, " ", "\u00a0") }

// headline says in sentences what a reader has to know who reads nothing else.
func (r *result) headline() []string {
	on := r.describeNodes()
	load := counted(r.Inputs.Callers, "caller")
	acquired := r.Results[acquire]
	if r.locks() == 0 {
		return []string{fmt.Sprintf("No lock could be taken on %s by %s in %s.", on, load, milliText(r.MeasuredMs)), r.failureSentence()}
	}
	took := "took"
	if r.Inputs.Loop == openLoop {
		took = fmt.Sprintf("on a schedule of %s starts a second, took", grouped(int64(r.Inputs.Rate)))
	}
	return []string{
		fmt.Sprintf("On %s, %s %s %s in %s: %s a second.", on, load, took, counted(int(r.locks()), "lock"),
			solid(milliText(r.MeasuredMs)), rateText(acquired.PerSecond)),
		fmt.Sprintf("Half of the acquires took no longer than %s (p50), 99 of 100 no longer than %s (p99).",
			solid(microText(acquired.P50)), solid(microText(acquired.P99))),
		r.failureSentence() + r.lateness(),
	}
}

// lateness tells whether the schedule of an open loop was kept: if not, the callers were too few.
func (r *result) lateness() string {
	if r.Schedule == nil || r.Schedule.Late+r.Schedule.NotStarted == 0 {
		return ""
	}
	return fmt.Sprintf(" Of %s scheduled starts, %s were late by more than %s and %s were never made.",
		grouped(r.Schedule.Scheduled), grouped(r.Schedule.Late), solid(milliText(millis(lateAfter))), grouped(r.Schedule.NotStarted))
}

// failureSentence counts what failed by operation: a failed acquire is a nuisance, a lost lock is more.
func (r *result) failureSentence() string {
	var parts []string
	for o := range operations {
		var failures int64
		for _, f := range r.Failures {
			if f.Operation == o.String() {
				failures += f.Count
			}
		}
		if failures > 0 {
			all := failures + r.Results[o].Count
			parts = append(parts, fmt.Sprintf("%s of %s (%s) at %s", grouped(failures), grouped(all),
				solid(percentText(float64(failures)/float64(all))), o))
		}
	}
	if len(parts) == 0 {
		return "No call failed."
	}
	return "Failed: " + strings.Join(parts, ", ") + "."
}

func (r *result) banner() string {
	switch {
	case r.Partial:
		return fmt.Sprintf("Partial: interrupted after %s of %s. The figures are of that part alone.",
			milliText(r.MeasuredMs), milliText(r.Inputs.DurationMs))
	case r.locks() == 0 && r.firstFailure() != "":
		return "No lock was taken: " + r.firstFailure()
	case r.locks() == 0:
		return "No lock was taken."
	}
	return ""
}

func (r *result) tiles() []tile {
	acquired := r.Results[acquire]
	return []tile{
		{"locks a second", rateText(acquired.PerSecond)},
		{"acquire, p50", acquired.text(acquired.P50)},
		{"acquire, p99", acquired.text(acquired.P99)},
		{"failed calls", grouped(r.failedCalls())},
	}
}

func (r *result) floorSentence() string {
	if r.Floor == nil {
		return "The floor is unknown: no quorum of nodes answered pings, or no lock was taken."
	}
	f := r.Floor
	distance := microText(f.Over) + " above"
	if f.Over < 0 {
		distance = microText(-f.Over) + " below"
	}
	sentence := fmt.Sprintf("The floor is %s: the p50 of the %s fastest node's pings. A quorum of %d has to wait for that node, so an "+
		"acquire cannot be expected to take less. Its p50 was %s, %s the floor: %.2f times as long.",
		microText(f.P50), ordinal(r.Quorum), r.Quorum, microText(r.Results[acquire].P50), distance, f.Ratio)
	if r.Inputs.Loop == openLoop {
		sentence += " That counts from the schedule, with the time before a late start."
	}
	return sentence
}
