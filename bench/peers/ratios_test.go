package main

import (
	"strings"
	"testing"
)

func TestComparisonStatesTheGoalAndWhetherItWasReached(t *testing.T) {
	for _, c := range []struct {
		comparison
		want string
	}{
		{comparison{"64 callers", []float64{12, 12.3, 13}, "redsync", atLeast(9), true}, "64 callers: 12.3 (12.0–13.0) x redsync (goal ≥ 9 x: reached)"},
		{comparison{"64 callers", []float64{8.9, 8.9, 13}, "redsync", atLeast(9), true}, "64 callers: 8.90 (8.90–13.0) x redsync (goal ≥ 9 x: MISSED)"},
		{comparison{"p99", []float64{1.9}, "healthy", atMost(2), true}, "p99: 1.90 x healthy (goal ≤ 2 x: reached)"},
		{comparison{"p99", []float64{1.9}, "healthy", atMost(2), false}, "p99: 1.90 x healthy (goal ≤ 2 x: MISSED), with failures"},
		{comparison{"p99", []float64{2.1}, "healthy", atMost(2), true}, "p99: 2.10 x healthy (goal ≤ 2 x: MISSED)"},
		{comparison{"p99", nil, "healthy", atMost(2), true}, "p99: none x healthy (goal ≤ 2 x: MISSED)"},
		{comparison{"8 callers", []float64{3}, "redsync", goal{}, true}, "8 callers: 3.00 x redsync (no goal)"},
	} {
		if got := c.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestRatiosComeFromTheSameRound(t *testing.T) {
	healthy := results{
		{nameRedlock, 64, 0}:         {rate: []float64{100, 200}},
		{nameRedsync, 64, 0}:         {rate: []float64{10, 10}},
		{nameRedsyncFailFast, 64, 0}: {rate: []float64{5, 20}},
		{nameRueidislock, 64, 0}:     {rate: []float64{200, 400}},
	}
	var out strings.Builder
	printRatios(output{Writer: &out}, healthy, results{})
	for _, want := range []string{
		"64 callers, cycles/s: 10.0 (10.0–10.0) x redsync (best mode) (goal ≥ 9 x: reached)",
		"64 callers, cycles/s: 15.0 (10.0–20.0) x redsync (default) (goal ≥ 9 x: reached)",
		"64 callers, cycles/s: 0.50 (0.50–0.50) x rueidislock on ONE node (no goal)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "x redislock") {
		t.Errorf("a library that was not measured is compared:\n%s", out.String())
	}
}

func TestOutageRatiosNeedNoFailures(t *testing.T) {
	outage := results{
		{nameRedlock, 1, 0}: {acquireP99: []float64{1}, releaseP99: []float64{1}},
		{nameRedlock, 1, 1}: {acquireP99: []float64{1.5}, releaseP99: []float64{3}},
		{nameRedlock, 1, 2}: {acquireP99: []float64{1.5}, releaseP99: []float64{1}, stuck: 1},
	}
	var got []string
	for _, c := range outageComparisons(outage) {
		got = append(got, c.String())
	}
	want := []string{
		"1 caller, 1 node stopped, acquire p99: 1.50 x healthy (goal ≤ 2 x: reached)",
		"1 caller, 1 node stopped, release p99: 3.00 x healthy (goal ≤ 2 x: MISSED)",
		"1 caller, 2 nodes stopped, acquire p99: 1.50 x healthy (goal ≤ 2 x: MISSED), with failures",
		"1 caller, 2 nodes stopped, release p99: 1.00 x healthy (goal ≤ 2 x: MISSED), with failures",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
