package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fault is one part of -fault: what is done to which node, when, and for how long.
type fault struct {
	text   string // as given
	verb   string
	node   int
	at     time.Duration // since the end of the warm-up
	length time.Duration // 0: it is over at once, or lasts until the end
	delay  time.Duration // that delay adds to the round trip
}

// faultRule is what a verb takes.
type faultRule struct {
	length lengthRule
	delay  bool
	proxy  bool // it needs one in front of the node
}

type lengthRule int

const (
	noLength lengthRule = iota
	mayLast
	mustLast
)

const faultForms = "stop:N@T+D, kill:N@T, restart:N@T, delay:N=D@T+D, hang:N@T+D, cut:N@T"

var faultRules = map[string]faultRule{
	"stop":    {length: mustLast},
	"kill":    {},
	"restart": {},
	"cut":     {},
	"hang":    {length: mustLast, proxy: true},
	"delay":   {length: mayLast, delay: true, proxy: true},
}

func (f fault) needsProxy() bool { return faultRules[f.verb].proxy }

// parseFaults reads the list of -fault, in its order. Its errors quote the part that is wrong.
func parseFaults(text string) ([]fault, error) {
	var faults []fault
	for _, part := range strings.Split(text, ",") {
		f, err := parseFault(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

func parseFault(text string) (f fault, err error) {
	f.text = text
	verb, rest, found := strings.Cut(text, ":")
	rule, known := faultRules[verb]
	if !found || !known {
		return f, errors.New("not a fault; accepted: " + faultForms)
	}
	f.verb = verb
	what, when, found := strings.Cut(rest, "@")
	if !found {
		return f, fmt.Errorf("says not when: add @T, as in %s:0@3s", verb)
	}
	number, delay, hasDelay := strings.Cut(what, "=")
	if f.node, err = strconv.Atoi(number); err != nil || f.node < 0 {
		return f, fmt.Errorf("%q is not a node: they are numbered from 0", number)
	}
	at, length, hasLength := strings.Cut(when, "+")
	if f.at, err = faultTime(at, 0); err != nil {
		return f, err
	}
	switch {
	case rule.delay && !hasDelay:
		return f, fmt.Errorf("says not how long a delay: %s:%d=5ms@%s", verb, f.node, when)
	case !rule.delay && hasDelay:
		return f, fmt.Errorf("%s takes no value: leave out =%s", verb, delay)
	case rule.length == mustLast && !hasLength:
		return f, fmt.Errorf("says not for how long: add +D, as in %s:%d@%s+2s", verb, f.node, when)
	case rule.length == noLength && hasLength:
		return f, fmt.Errorf("%s takes no length: leave out +%s", verb, length)
	}
	if hasDelay {
		if f.delay, err = faultTime(delay, 1); err == nil && f.delay > maxRTT {
			err = fmt.Errorf("a delay of %s is too long: at most %s", delay, shortDuration(maxRTT))
		}
	}
	if hasLength && err == nil {
		f.length, err = faultTime(length, 1)
	}
	return f, err
}

func faultTime(text string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > maxDuration {
		return 0, fmt.Errorf("%q is not a time; accepted: durations with a unit, such as 3s or 500ms, up to %s",
			text, shortDuration(maxDuration))
	}
	return d, nil
}

// checkFaults refuses what cannot be done to so many nodes in a run of that duration.
func checkFaults(faults []fault, nodes int, duration time.Duration) error {
	byNode := make([][]fault, nodes)
	for _, f := range faults {
		switch {
		case f.node >= nodes:
			return fmt.Errorf("%q: there is no node %d: the %d nodes are numbered from 0", f.text, f.node, nodes)
		case f.at >= duration:
			return fmt.Errorf("%q: begins after the end of the run: -d is %s", f.text, shortDuration(duration))
		}
		byNode[f.node] = append(byNode[f.node], f)
	}
	for _, sequence := range byNode {
		slices.SortStableFunc(sequence, func(a, b fault) int { return int(a.at - b.at) })
		if err := checkSequence(sequence); err != nil {
			return err
		}
	}
	return nil
}

// checkStops refuses to stop servers where they cannot be paused.
func checkStops(faults []fault, canPause bool) error {
	for _, f := range faults {
		if f.verb == "stop" && !canPause {
			return fmt.Errorf("%q: Windows cannot stop a process: take hang", f.text)
		}
	}
	return nil
}

// checkSequence takes one node's faults in the order of their begin. Those of the process may not overlap, nor
// two delays, nor two hangs: the end of one would end the other.
func checkSequence(faults []fault) error {
	last := map[string]fault{} // by what they act on
	var killed *fault
	for i, f := range faults {
		kind := "process"
		if f.needsProxy() {
			kind = f.verb
		}
		if earlier, found := last[kind]; found && earlier.lasts(f.at) {
			return fmt.Errorf("%q begins before %q has ended on the same node", f.text, earlier.text)
		}
		last[kind] = f
		switch {
		case kind != "process":
		case f.verb == "restart" && killed == nil:
			return fmt.Errorf("%q: node %d runs then: kill it first", f.text, f.node)
		case f.verb == "restart":
			killed = nil
		case killed != nil:
			return fmt.Errorf("%q: node %d is dead then, after %q: restart it first", f.text, f.node, killed.text)
		case f.verb == "kill":
			killed = &faults[i]
		}
	}
	return nil
}

// lasts reports whether f is still on at a time that is not before its begin.
func (f fault) lasts(at time.Duration) bool {
	if f.length > 0 {
		return at < f.at+f.length
	}
	return faultRules[f.verb].length == mayLast // without a length it lasts until the end
}
