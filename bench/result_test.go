package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pinged(name string, p50 float64) node {
	return node{Node: name, Version: "Redis 7.0.15", Ping: latencies{Count: 100, P50: p50, P99: 4 * p50}}
}

// sample is a result as a run on five nodes gives it.
func sample() *result {
	nodes := []node{
		pinged("a:1", 300), pinged("b:1", 100),
		{Node: "c:1", Version: unknown, Failures: 7, Error: "dial tcp: connection refused"},
		pinged("d:1", 200), pinged("e:1", 400),
	}
	acquired := latencies{Count: 12345, P50: 450, P90: 900, P99: 1234, P999: 56789, Max: 1.2e6}
	r := &result{
		Tool: "redlock-bench", Format: 2, Quorum: 3, MeasuredMs: 3004.2, Nodes: nodes,
		Inputs:      inputs{Nodes: "given", Loop: closedLoop, Callers: 16, Keys: 1, TTLMs: 10_000, DurationMs: 90_000, WarmUpMs: 300},
		Environment: environment{Go: "go1.26", OS: "linux", Arch: "amd64", CPUs: 1, GOMAXPROCS: 1},
		Failures: []failed{{
			Operation: "acquire", Class: "held", latencies: latencies{Count: 3, P50: 5, P90: 5, P99: 5, P999: 5, Max: 5},
			Example: "redlock: acquire \"k\": the key is held",
		}},
	}
	r.Notes = notes(r.Inputs)
	for o := range operations {
		r.Results = append(r.Results, opResult{Operation: o.String(), PerSecond: 4115, latencies: acquired})
	}
	r.Results[renew].latencies = latencies{}
	r.Floor = floorOf(nodes, r.Quorum, acquired)
	return r
}

func TestFloorIsTheLastNodeAQuorumWaitsFor(t *testing.T) {
	acquired := latencies{Count: 1, P50: 450}
	nodes := sample().Nodes
	require.Equal(t, &floor{Node: "a:1", P50: 300, Over: 150, Ratio: 1.5}, floorOf(nodes, 3, acquired), "the third of 100, 200, 300, 400")
	require.Equal(t, &floor{Node: "b:1", P50: 100, Over: 350, Ratio: 4.5}, floorOf(nodes, 1, acquired))
	require.Nil(t, floorOf(nodes, 5, acquired), "four nodes answered")
	require.Nil(t, floorOf(nodes, 3, latencies{}), "nothing to compare")
}

func TestPercentilesAreThoseOfTheValues(t *testing.T) {
	h := newHistogram()
	for n := range 10_000 {
		record(h, time.Duration(n+1)*time.Microsecond)
	}
	got := latenciesOf(h)
	require.EqualValues(t, 10_000, got.Count)
	require.InEpsilon(t, 5_000, got.P50, 0.01)
	require.InEpsilon(t, 9_000, got.P90, 0.01)
	require.InEpsilon(t, 9_900, got.P99, 0.01)
	require.InEpsilon(t, 9_990, got.P999, 0.01)
	require.InEpsilon(t, 10_000, got.Max, 0.01)
	require.Equal(t, latencies{}, latenciesOf(newHistogram()))
}

func TestMostFrequentAcquireFailureSpeaksForTheRun(t *testing.T) {
	r := sample()
	r.Failures = append(r.Failures,
		failed{Operation: "acquire", Class: "no quorum", latencies: latencies{Count: 9}, Example: "many"},
		failed{Operation: "renew", Class: "lost", latencies: latencies{Count: 99}, Example: "not an acquire"})
	require.Equal(t, "many", r.firstFailure())
	require.Equal(t, 4, r.answering())
}

func TestJSONHasTheDocumentedShape(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeJSON(&b, sample()))
	var document map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &document))
	for _, field := range []string{"tool", "format", "started", "partial", "inputs", "environment", "quorum", "measured_ms",
		"results", "failures", "nodes", "floor", "notes"} {
		require.Contains(t, document, field)
	}
	first := document["results"].([]any)[0].(map[string]any)
	for _, field := range []string{"operation", "count", "per_second", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"} {
		require.Contains(t, first, field)
	}
	failure := document["failures"].([]any)[0].(map[string]any)
	require.Equal(t, "held", failure["class"])
	require.EqualValues(t, 3, failure["count"])
	require.Equal(t, `redlock: acquire "k": the key is held`, failure["example"])
	require.EqualValues(t, 300, document["floor"].(map[string]any)["p50_us"])
	ping := document["nodes"].([]any)[0].(map[string]any)["ping"].(map[string]any)
	require.EqualValues(t, 300, ping["p50_us"])
}

func TestVersionIsThatOfTheServerItself(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n":                     "Redis 7.0.15",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n": "Valkey 8.1.0",
		"# Server\r\nredis_version:7.2.5\r\nmemurai_version:4.1.2\r\n":                      "Memurai 4.1.2",
		"# Server\r\n": unknown,
		"":             unknown,
	} {
		require.Equal(t, want, versionOf(info))
	}
}
