package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFlagsThatMakeNoSenseInASweepAreRefused(t *testing.T) {
	for args, want := range map[string][]string{
		"-sweep keys":                               {"-sweep", "callers or nodes"},
		"-sweep callers -rate 10":                   {"-sweep", "-rate"},
		"-sweep callers -contend":                   {"-sweep", "-contend"},
		"-sweep callers -spawn 3 -fault stop:1@1s":  {"-sweep", "-fault"},
		"-sweep nodes -rtt 1ms,2ms,3ms":             {"-sweep", "-rtt"},
		"-sweep nodes -hgrm p":                      {"-sweep", "-hgrm"},
		"-sweep callers -c 3":                       {"leave out -c"},
		"-sweep nodes -nodes redis://a,redis://b":   {"leave out -nodes"},
		"-sweep callers -nodes redis://a -spawn 3":  {"-nodes", "-spawn"},
		"-sweep callers -wait 1s":                   {"-wait"},
		"-sweep nodes -c 3 -spawn 3":                nil,
		"-sweep nodes -hold 1ms -fencing":           nil,
		"-sweep callers -nodes redis://a,redis://b": nil,
	} {
		_, err := parseFlags(strings.Fields(args))
		if want == nil {
			require.NoError(t, err, args)
		}
		for _, part := range want {
			require.ErrorContains(t, err, part, args)
		}
	}
}

func TestEachRunOfASweepHasItsOwnSettings(t *testing.T) {
	for args, want := range map[string]settings{
		"-sweep callers":          {callers: 16, keys: 16},
		"-sweep callers -keys 2":  {callers: 16, keys: 2},
		"-sweep callers -spawn 3": {callers: 16, keys: 16, spawn: 3},
		"-sweep nodes":            {callers: 1, keys: 1, embed: 16},
		"-sweep nodes -spawn 3":   {callers: 1, keys: 1, spawn: 16},
		"-sweep nodes -c 4":       {callers: 4, keys: 4, embed: 16},
	} {
		s, err := parseFlags(strings.Fields(args))
		require.NoError(t, err, args)
		got := s.at(16)
		require.Equal(t, want, settings{callers: got.callers, keys: got.keys, spawn: got.spawn, embed: got.embed}, args)
	}
}

func parseSweep(t *testing.T, text string) sweepResult {
	t.Helper()
	var swept sweepResult
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&swept), text)
	return swept
}

func TestSweepOverNodesMeasuresEachNumberOfThem(t *testing.T) {
	path := t.TempDir() + "/sweep.html"
	status, stdout, stderr := runFor(t, t.Context(), "-sweep", "nodes", "-d", "200ms", "-json", "-report", path)
	require.Equal(t, exitMeasured, status, stderr)
	swept := parseSweep(t, stdout)
	require.False(t, swept.Partial)
	require.Equal(t, format, swept.Format)
	require.Equal(t, "nodes", swept.Sweep.Over)
	require.Len(t, swept.Sweep.Runs, 4)
	for i, n := range []int{1, 3, 5, 7} {
		r := swept.Sweep.Runs[i]
		require.Len(t, r.Nodes, n)
		require.Equal(t, n/2+1, r.Quorum)
		require.Positive(t, r.Results[cycle].PerSecond)
	}
	require.Contains(t, content(t, path), "Throughput against nodes")
	_, err := parseResult([]byte(stdout))
	require.ErrorContains(t, err, "sweep.runs")
}

func TestSweepOverCallersKeepsTheNodes(t *testing.T) {
	urls, _ := givenNodes(t, 3)
	status, stdout, stderr := runFor(t, t.Context(), "-sweep", "callers", "-nodes", strings.Join(urls, ","), "-d", "50ms")
	require.Equal(t, exitMeasured, status, stderr)
	require.Regexp(t, `callers +cycles/s +acquire p50 +acquire p99 +failed calls`, stdout)
	for _, callers := range []string{"1", "4", "16", "64", "256"} {
		require.Regexp(t, `(?m)^ *`+callers+` +\d[\d.,]* .* [\d,]+$`, stdout) // a busy machine may fail at 256
	}
}

func TestInterruptedSweepIsPartial(t *testing.T) {
	for wait, runs := range map[time.Duration]int{0: 0, 600 * time.Millisecond: 1} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		status, stdout, stderr := runFor(t, ctx, "-sweep", "callers", "-d", "1h", "-json")
		cancel()
		require.Equal(t, exitInterrupted, status, stderr)
		require.Contains(t, stderr, "the sweep is partial")
		swept := parseSweep(t, stdout)
		require.True(t, swept.Partial)
		require.Len(t, swept.Sweep.Runs, runs)
		var table bytes.Buffer
		require.NoError(t, writeSweepTable(&table, &swept))
		require.Contains(t, table.String(), "PARTIAL")
		require.Len(t, drawings(t, sweepReported(t, &swept)), 2)
	}
}

func TestSweepWithoutAnyLockTellsWhy(t *testing.T) {
	status, _, stderr := runFor(t, t.Context(), "-sweep", "callers", "-nodes", unreachable, "-d", "10ms")
	require.Equal(t, exitNothing, status)
	require.Contains(t, stderr, "no lock could be taken in any run: ")
	require.Contains(t, stderr, "refused")
	require.NotContains(t, stderr, "s3cret")
}

func sweepReported(t *testing.T, swept *sweepResult) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, writeSweepReport(&b, swept))
	return b.String()
}

// sampleSweep is a sweep whose rates double from run to run.
func sampleSweep(over string) *sweepResult {
	swept := &sweepResult{Tool: "redlock-bench", Format: format, Sweep: sweep{Over: over}}
	for i, v := range sweepValues[over] {
		r := sample()
		r.Inputs.Callers = v
		if over == overNodes {
			r.Inputs.Callers, r.Nodes = 16, make([]node, v)
		}
		r.Results[cycle].PerSecond = float64(1000 * int(1<<i))
		swept.Sweep.Runs = append(swept.Sweep.Runs, r)
	}
	return swept
}

func TestSweepPageShowsThroughputWithLabelledAxes(t *testing.T) {
	for over, axis := range map[string]string{overCallers: "callers, logarithmic scale", overNodes: "nodes"} {
		page := sweepReported(t, sampleSweep(over))
		charts := drawings(t, page)
		require.Len(t, charts, 2, "for wide and narrow screens")
		for _, chart := range charts {
			require.Contains(t, chart, ">Throughput against "+over+"</title>")
			require.Contains(t, chart, ">full cycles a second</text>")
			require.Contains(t, chart, ">"+axis+"</text>")
			require.Equal(t, len(sweepValues[over]), strings.Count(chart, `class="mark"`), "a point for each run")
		}
		text := words(page)
		require.Contains(t, text, over+" cycles/s acquire p50 acquire p99 failed calls 1 1,000 450 µs 1.23 ms 3")
		require.Contains(t, text, "acquire, held, for example: redlock: acquire")
		for _, outside := range []string{"<script", "src=", "href=", "http://", "https://"} {
			require.NotContains(t, page, outside)
		}
	}
}

func TestSweepPageEscapesWhatItWasGiven(t *testing.T) {
	swept := sampleSweep(overNodes)
	swept.Sweep.Runs[0].Failures[0].Example = "<script>alert(1)</script>"
	page := sweepReported(t, swept)
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "ZgotmplZ")
}
