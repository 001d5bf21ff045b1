package main

import (
	"fmt"
	"strings"
)

// loopText says which loop the figures are from: they cannot be compared across the two.
func (in inputs) loopText() string {
	if in.Loop == openLoop {
		return fmt.Sprintf("open loop, %s a second", counted(in.Rate, "start"))
	}
	if in.Contend {
		return "closed loop, contending over " + counted(in.Lockers, "locker")
	}
	return "closed loop"
}

// lockText tells what is not as usual about the locks.
func (in inputs) lockText() string {
	text := ""
	if in.HoldMs > 0 {
		text += ", held for " + milliText(in.HoldMs)
	}
	if in.Fencing {
		text += ", with fences"
	}
	return text
}

// text tells whether the schedule was kept.
func (s starts) text() string {
	of := counted(int(s.Scheduled), "start")
	if s.Late == 0 && s.NotStarted == 0 {
		return fmt.Sprintf("schedule kept: none of %s late by more than %s", of, milliText(millis(lateAfter)))
	}
	return fmt.Sprintf("schedule NOT kept: of %s %s late by more than %s, %s never started: "+
		"more callers (-c) help if the nodes are fast enough",
		of, grouped(s.Late), milliText(millis(lateAfter)), grouped(s.NotStarted))
}

func writeSchedule(b *strings.Builder, r *result) {
	if r.Schedule != nil {
		b.WriteString("\n" + wrapped(r.Schedule.text(), "", lineWidth))
	}
}

// writeFaults shows what was done to the nodes beside what became of the acquires that were to begin meanwhile.
func writeFaults(b *strings.Builder, r *result) {
	if len(r.Faults) == 0 {
		return
	}
	t := table{left: 2}
	t.row("fault", "node", "from", "to", "acquired", "failed", "max")
	for _, f := range r.Faults {
		m := r.during(f)
		t.row(f.Fault, f.Node, faultTimeText(f.FromMs), faultTimeText(f.ToMs), grouped(m.Acquired), grouped(m.Failed),
			latencies{Count: m.Acquired}.text(m.Max))
	}
	t.write(b)
	for _, f := range r.Faults {
		if f.Error != "" {
			b.WriteString(wrapped(fmt.Sprintf("%s could not be done: %s", f.Fault, f.Error), "  ", lineWidth))
		}
	}
}

// during sums up the pieces of the time line that a fault touches; without percentiles, which do not add up.
func (r *result) during(f faultSpan) moment {
	sum := moment{FromMs: f.FromMs, ToMs: f.ToMs}
	for _, m := range r.Timeline {
		if m.FromMs <= f.ToMs && m.ToMs > f.FromMs {
			sum.Acquired += m.Acquired
			sum.Failed += m.Failed
			sum.Max = max(sum.Max, m.Max)
		}
	}
	return sum
}

func faultTimeText(millis float64) string { return fmt.Sprintf("%.2f s", millis/1e3) }

// roundTripText names a node and what -rtt adds to its round trip.
func (r *result) roundTripText(name string) string {
	for _, n := range r.Nodes {
		if n.Node == name && n.RTTMs > 0 {
			return fmt.Sprintf("%s, %s by -rtt and %s beyond", name, milliText(n.RTTMs), microText(max(n.Ping.P50-1e3*n.RTTMs, 0)))
		}
	}
	return name
}
