package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func rendered(t *testing.T, r *result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, writeTable(&b, r))
	return b.String()
}

func lineWith(t *testing.T, text, start string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, start) {
			return strings.TrimSuffix(line, "\n")
		}
	}
	require.Fail(t, "no line", "%q in\n%s", start, text)
	return ""
}

func TestTableShowsEveryFigureWithItsUnit(t *testing.T) {
	text := rendered(t, sample())
	for _, part := range []string{
		"5 nodes: quorum 3", "16 callers, 1 key, ttl 10 s", "1 CPU\n", "closed loop; measured for 3.00 s, after a warm-up of 300 ms",
		"closed loop: ", "while the load runs", "no answer from c:1: dial tcp: connection refused",
		"acquire, held, for example:", `redlock: acquire "k": the key is held`,
	} {
		require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(part), " "))
	}
	require.Regexp(t, `^acquire +12,345 +4,115 +450 µs +900 µs +1\.23 ms +56\.8 ms +1\.20 s$`, lineWith(t, text, "acquire  "))
	require.Regexp(t, `^renew +0 +4,115( +-){5}$`, lineWith(t, text, "renew"))
	require.Regexp(t, `^a:1 +Redis 7\.0\.15 +100 +300 µs +1\.20 ms +0$`, lineWith(t, text, "a:1"))
	require.Regexp(t, `^c:1 +unknown +0 +- +- +7$`, lineWith(t, text, "c:1"))
	require.Regexp(t, `^floor +300 µs +p50 of the 3rd fastest node`, lineWith(t, text, "floor"))
	require.Contains(t, text, "450 µs  p50, 150 µs above the floor: 1.50 times as long")
	require.NotContains(t, text, "PARTIAL")
}

func TestTableFitsEightyColumnsAndAlignsThem(t *testing.T) {
	r := sample()
	for i := range r.Results {
		r.Results[i].Count = 12_345_678
	}
	r.Failures[0].Example = strings.Repeat("node.example.com:6379: i/o timeout, ", 9)
	ends := map[int]bool{}
	for line := range strings.Lines(rendered(t, r)) {
		line = strings.TrimSuffix(line, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		require.Equal(t, strings.TrimRight(line, " "), line)
		if strings.Contains(line, "12,345,678") {
			ends[utf8.RuneCountInString(line)] = true
		}
	}
	require.Len(t, ends, 1, "the rows of a table end in the same column")
}

func TestPartialAndFailureFreeResultsSaySo(t *testing.T) {
	r := sample()
	r.Partial, r.Failures, r.Floor = true, nil, nil
	text := rendered(t, r)
	require.Contains(t, text, "PARTIAL: interrupted after 3.00 s of 1m30s\n")
	require.Contains(t, text, "no failures\n")
	require.Contains(t, text, "floor: unknown")

	r.Floor = &floor{P50: 500, Over: -50, Ratio: 0.9}
	require.Contains(t, rendered(t, r), "50.0 µs below the floor")
	r.Inputs.Nodes = "embedded"
	require.Contains(t, rendered(t, r), "5 embedded nodes (in this process")
	r.Inputs.Nodes = "spawned"
	require.Contains(t, rendered(t, r), "5 spawned nodes (redis-server processes")
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for micros, want := range map[float64]string{
		0: "0.00 µs", 0.1: "0.10 µs", 9.99: "9.99 µs", 9.996: "10.0 µs", 99.96: "100 µs", 999.4: "999 µs", 999.6: "1.00 ms",
		12_340: "12.3 ms", 999_600: "1.00 s", 60e6: "60.0 s",
	} {
		require.Equal(t, want, microText(micros))
	}
	for millis, want := range map[float64]string{0: "0 ms", 300: "300 ms", 0.5: "500 µs", 10_000: "10 s", 3004.2: "3.00 s", 3.6e6: "1h", 90_400: "1m30s"} {
		require.Equal(t, want, milliText(millis))
	}
}

func TestNumbersAreGroupedAndOrdinal(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, grouped(n))
	}
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 13: "13th", 21: "21st"} {
		require.Equal(t, want, ordinal(n))
	}
}

func TestProgressLineTellsThePhase(t *testing.T) {
	start := time.Now()
	l := &load{start: start, from: start.Add(time.Second), until: start.Add(3 * time.Second)}
	l.callers = []*recorder{newRecorder(time.Second), newRecorder(time.Second)}
	l.callers[0].locks.Add(1000)
	l.callers[1].locks.Add(234)
	require.Equal(t, "warming up: 1,234 locks", progressLine(l, start))
	require.Equal(t, "measuring: 0.5 s of 2.0 s, 1,234 locks", progressLine(l, start.Add(1500*time.Millisecond)))
	require.Equal(t, "measuring: 2.0 s of 2.0 s, 1,234 locks", progressLine(l, start.Add(time.Minute)))
}
