package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	libraryNodeTimeout = 200 * time.Millisecond // the default of redlock.WithNodeTimeout
	leastNodeTimeout   = 10 * time.Millisecond  // shorter ones are over when a process is not scheduled for a moment
	roundTripsToWait   = 10                     // node timeout / p99.9 of the slowest node
	timeoutsInTTL      = 10
	longestInTTL       = 4
	enoughPings        = 1000 // fewer have no p99.9 of their own: it is their longest
)

// advice is what follows from a result for the settings of a locker.
type advice struct {
	Subject string
	Text    string
	Warning bool
}

// advise is pure: all it says follows from the result.
func advise(r *result) []advice {
	timeout, given := adviseNodeTimeout(r)
	given = append(given, adviseTTL(r, timeout), adviseFailures(r))
	return append(given, adviseHosts(r)...)
}

// adviseNodeTimeout also returns the timeout that the rest builds on. Nodes that had a fault are left out:
// their pings tell how long the fault took.
func adviseNodeTimeout(r *result) (time.Duration, []advice) {
	faulty := map[string]bool{}
	for _, f := range r.Faults {
		faulty[f.Node] = true
	}
	var slowest node
	for _, n := range r.Nodes {
		if n.Ping.Count > 0 && !faulty[n.Node] && n.Ping.P999 >= slowest.Ping.P999 {
			slowest = n
		}
	}
	if slowest.Ping.Count == 0 {
		return libraryNodeTimeout, []advice{{Subject: "node timeout",
			Text: "unknown: no node without a fault answered a ping. Keep the default, 200 ms"}}
	}
	asked := roundTripsToWait * asDuration(slowest.Ping.P999)
	timeout := niceAbove(max(asked, leastNodeTimeout))
	text := fmt.Sprintf("at least %s: %d times the p99.9 of the slowest node's pings (%s, %s)",
		millisText(timeout), roundTripsToWait, slowest.Node, microText(slowest.Ping.P999))
	if asked < leastNodeTimeout {
		text = fmt.Sprintf("at least %s: %d times the p99.9 of the slowest node's pings (%s, %s) is less, "+
			"but a process can be paused for as long", millisText(timeout), roundTripsToWait, slowest.Node, microText(slowest.Ping.P999))
	}
	if slowest.Ping.Count < enoughPings {
		text += fmt.Sprintf("; that was only %s, so measure for longer", counted(int(slowest.Ping.Count), "ping"))
	}
	if timeout > libraryNodeTimeout {
		return timeout, []advice{{Subject: "node timeout", Warning: true,
			Text: text + fmt.Sprintf(". The default, 200 ms, is too short: set WithNodeTimeout to %s", millisText(timeout))}}
	}
	return timeout, []advice{{Subject: "node timeout", Text: text + ". The default, 200 ms, is enough"}}
}

// adviseTTL leaves room for renewals, which begin at half the ttl: for several that time out, and for twice the
// longest that was seen.
func adviseTTL(r *result, timeout time.Duration) advice {
	longest := asDuration(r.Results[renew].Max)
	if r.Inputs.Loop != openLoop { // there, an acquire also counts the time before it was begun
		longest = max(longest, asDuration(r.Results[acquire].Max))
	}
	ttl := niceAbove(max(timeoutsInTTL*timeout, longestInTTL*longest))
	text := fmt.Sprintf("at least %s: %d node timeouts of %s, so that a renewal, which begins at half the ttl, can fail "+
		"several times before the end", millisText(ttl), timeoutsInTTL, millisText(timeout))
	if longestInTTL*longest > timeoutsInTTL*timeout {
		text = fmt.Sprintf("at least %s: %d times the longest acquire or renewal seen (%s), so that a renewal, which begins at "+
			"half the ttl, ends in time even if it takes twice that", millisText(ttl), longestInTTL, microText(float64(longest)/1e3))
	}
	text += ". Longer than the work if nothing renews the lock; no longer than a crashed holder may block the key"
	if asked := time.Duration(r.Inputs.TTLMs * 1e6); asked < ttl {
		return advice{Subject: "ttl", Warning: true, Text: text + ". This run's, " + milliText(r.Inputs.TTLMs) + ", is shorter"}
	}
	return advice{Subject: "ttl", Text: text}
}

// adviseFailures counts how many nodes may fail before locks cannot be taken.
func adviseFailures(r *result) advice {
	n, answering := len(r.Nodes), r.answering()
	a := advice{Subject: "failures", Text: fmt.Sprintf("%s, quorum %d: ", counted(n, "node"), r.Quorum)}
	spare := n - r.Quorum
	switch {
	case spare <= 0:
		a.Text += "no node may fail"
	case spare == 1:
		a.Text += "one may fail, and locks are still taken"
	default:
		a.Text += fmt.Sprintf("any %d may fail, and locks are still taken", spare)
	}
	if n > 2 && n%2 == 0 {
		a.Text += fmt.Sprintf("; %d survive no more than %d do", n, n-1)
	}
	switch {
	case answering < r.Quorum:
		a.Warning = true
		a.Text += fmt.Sprintf(". Only %d answered a ping in this run: too few for any lock", answering)
	case answering < n:
		a.Warning = true
		a.Text += fmt.Sprintf(". Only %d answered a ping in this run: %d more may fail", answering, answering-r.Quorum)
	}
	return a
}

// adviseHosts warns of nodes that fail together.
func adviseHosts(r *result) []advice {
	switch {
	case len(r.Nodes) < 2:
		return nil
	case r.Inputs.Nodes == "embedded":
		return []advice{sharing("all nodes are in this process and fail with it: good for a try. Measure your own nodes before you take over a figure")}
	case r.Inputs.Nodes == "spawned":
		return []advice{sharing("all nodes are on this machine and fail with it: good for a try. Measure your own nodes before you take over a figure")}
	}
	byHost := map[string][]string{}
	var hosts []string
	for _, n := range r.Nodes {
		host := hostOf(n.Node)
		if len(byHost[host]) == 0 {
			hosts = append(hosts, host)
		}
		byHost[host] = append(byHost[host], n.Node)
	}
	var given []advice
	for _, host := range hosts {
		together := byHost[host]
		if len(together) < 2 {
			continue
		}
		text := strings.Join(together, ", ") + " share a host and fail together"
		if len(r.Nodes)-len(together) < r.Quorum {
			text += ": without it no quorum is left"
		}
		given = append(given, sharing(text+". A quorum is worth its nodes' independence: put each on a host of its own"))
	}
	return given
}

func sharing(text string) advice { return advice{Subject: "shared host", Text: text, Warning: true} }

// hostOf gives the names of this machine that need no look-up one form.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "localhost"
	}
	return host
}

// niceAbove rounds up to a number that people would choose: 10, 15, 20, 25, 30, 40, 50, 60, 80, 100 ms and so on.
func niceAbove(d time.Duration) time.Duration {
	steps := []time.Duration{10, 15, 20, 25, 30, 40, 50, 60, 80, 100}
	unit := time.Millisecond / 10
	for d > 100*unit {
		unit *= 10
	}
	i := slices.IndexFunc(steps, func(step time.Duration) bool { return step*unit >= d })
	return steps[i] * unit
}

func asDuration(micros float64) time.Duration { return time.Duration(micros * 1e3) }

// millisText shows a duration that is a round number.
func millisText(d time.Duration) string {
	if d > time.Second && d%time.Second != 0 {
		return fmt.Sprintf("%g s", d.Seconds())
	}
	return milliText(millis(d))
}

func writeAdvice(b *strings.Builder, r *result) {
	b.WriteString("\nadvice\n")
	for _, a := range advise(r) {
		mark := ""
		if a.Warning {
			mark = "WARNING, "
		}
		b.WriteString(wrapped(mark+a.Subject+": "+a.Text, "  ", lineWidth))
	}
}
