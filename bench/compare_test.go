package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// saved writes a result as -json does and returns the file's name.
func saved(t *testing.T, name string, r *result) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, writeFile(path, func(w io.Writer) error { return writeJSON(w, r) }))
	return path
}

func compared(t *testing.T, before, after *result) string {
	t.Helper()
	status, stdout, stderr := runFor(t, t.Context(), "compare", saved(t, "a.json", before), saved(t, "b.json", after))
	require.Equal(t, exitMeasured, status, stderr)
	require.Empty(t, stderr)
	return stdout
}

func TestComparisonShowsBothFiguresAndTheirRatio(t *testing.T) {
	after := sample()
	after.Results[acquire].P99, after.Results[acquire].PerSecond = 2468, 8230
	after.Results[release].latencies = latencies{}
	after.Failures = []failed{{Operation: "renew", Class: "lost", latencies: latencies{Count: 5}}}
	text := compared(t, sample(), after)
	require.Contains(t, text, "same inputs and environment\n")
	require.Regexp(t, `(?m)^acquire +per second +4,115 +→ +8,230 +2\.00 ×$`, text)
	require.Regexp(t, `(?m)^ +p50 +450 µs +→ +450 µs +1\.00 ×$`, text)
	require.Regexp(t, `(?m)^ +p99 +1\.23 ms +→ +2\.47 ms +2\.00 ×$`, text)
	require.Regexp(t, `(?m)^ +max +1\.20 s +→ +1\.20 s +1\.00 ×$`, text)
	require.Regexp(t, `(?m)^renew +per second +- +→ +- +-$`, text, "nothing counted")
	require.Regexp(t, `(?m)^release +per second +4,115 +→ +- +-$`, text)
	require.Regexp(t, `(?m)^floor +p50 +300 µs +→ +300 µs +1\.00 ×$`, text)
	require.Regexp(t, `(?m)^acquire +held +3 \(0\.02 %\) +→ +0 \(0 %\) +0\.00 ×$`, text)
	require.Regexp(t, `(?m)^renew +lost +- +→ +5 \(100 %\) +-$`, text)
	ends := map[int]bool{}
	for line := range strings.Lines(text) {
		if strings.Contains(strings.TrimSpace(line), " ") { // the name of a file may be a long word
			require.LessOrEqual(t, utf8.RuneCountInString(line), lineWidth+1, line)
		}
		if before, _, found := strings.Cut(line, " → "); found && strings.Contains(line, "×") && !strings.Contains(line, "%") {
			ends[utf8.RuneCountInString(before)] = true
		}
	}
	require.Len(t, ends, 1, "the arrows stand below each other")
}

func TestComparisonSaysWhatElseDiffers(t *testing.T) {
	after := sample()
	after.Inputs.Callers, after.Inputs.TTLMs = 64, 500
	after.Environment.Go, after.Partial = "go1.27", true
	after.Nodes = after.Nodes[:3]
	after.Nodes[0].Version, after.Quorum, after.Floor = "Valkey 8.1.0", 2, nil
	after.Faults = []faultSpan{{Fault: "stop:2@3s+2s"}, {Fault: "kill:1@9s", Error: "no such process"}}
	text := strings.Join(strings.Fields(compared(t, sample(), after)), " ")
	for _, part := range []string{
		"DIFFERENT SET-UP", "callers: 16 → 64", "ttl: 10 s → 500 ms", "go: go1.26 → go1.27", "number of nodes: 5 → 3",
		"quorum: 3 → 2", "nodes that answered: 4 → 2", "addresses: a:1, b:1, c:1, d:1, e:1 → a:1, b:1, c:1",
		"servers: Redis 7.0.15, unknown → Redis 7.0.15, Valkey 8.1.0, unknown", "interrupted: no → yes, after 3.00 s",
		"faults: none → stop:2@3s+2s, kill:1@9s (could not be done)",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "floor p50")
	require.NotContains(t, text, "format")
}

func TestNewPortsOfSpawnedNodesAreNoDifference(t *testing.T) {
	before, after := sample(), sample()
	before.Inputs.Nodes, after.Inputs.Nodes = "spawned", "spawned"
	after.Nodes[0].Node = "127.0.0.1:40000"
	before.Failures, after.Failures = nil, nil
	text := compared(t, before, after)
	require.Contains(t, text, "same inputs and environment")
	require.Contains(t, text, "no failures in either")
}

func TestBothFormatsAreRead(t *testing.T) {
	old := sample()
	old.Format = 1
	b, err := json.Marshal(old)
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(b, &document))
	delete(document, "timeline")
	delete(document, "faults")
	delete(document["inputs"].(map[string]any), "loop")
	b, err = json.Marshal(document)
	require.NoError(t, err)
	r, err := parseResult(append([]byte("\xef\xbb\xbf"), b...))
	require.NoError(t, err, "with a byte order mark, as some editors leave it")
	require.Equal(t, []difference{{"format", "1", "2"}}, differences(r, sample()))
}

func TestWhatIsNoResultIsRefused(t *testing.T) {
	whole, err := json.Marshal(sample())
	require.NoError(t, err)
	with := func(old, new string) string { return strings.Replace(string(whole), old, new, 1) }
	for text, want := range map[string]string{
		"":                                    "no JSON document",
		string(whole[:200]):                   "no JSON document",
		string(whole) + "{}":                  "no JSON document",
		"[1]":                                 "no JSON document",
		"null":                                "no result of this tool",
		`{"tool":"other"}`:                    "no result of this tool",
		"\xff\xfe{\x00":                       "UTF-16",
		with(`"format":2`, `"format":3`):      "format 3, and 1 and 2 are known",
		with(`"format":2`, `"format":0`):      "format 0",
		`{"tool":"redlock-bench","format":2}`: "figures of 0 operations",
		with(`"operation":"renew"`, `"operation":"acquire"`): `"acquire" where bench -json writes "renew"`,
		with(`"quorum":3`, `"quorum":"3"`):                   "not as bench -json writes it",
	} {
		path := filepath.Join(t.TempDir(), "x.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		status, stdout, stderr := runFor(t, t.Context(), "compare", saved(t, "a.json", sample()), path)
		require.Equal(t, exitNothing, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, path+": it ")
		require.Contains(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one line")
	}
}

func TestCompareTakesTwoFiles(t *testing.T) {
	for _, args := range [][]string{{"compare"}, {"compare", "a"}, {"compare", "a", "b", "c"}} {
		status, _, stderr := runFor(t, t.Context(), args...)
		require.Equal(t, exitUsage, status)
		require.Contains(t, stderr, "before.json after.json")
	}
	status, _, stderr := runFor(t, t.Context(), "compare", "no-such-file", "b")
	require.Equal(t, exitNothing, status)
	require.Contains(t, stderr, "no-such-file")
	status, stdout, _ := runFor(t, t.Context(), "compare", "-h")
	require.Equal(t, exitMeasured, status)
	require.Contains(t, stdout, "usage: bench compare")
}

func TestSharesAreNeitherNothingNorEverythingUnlessTheyAre(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 1e-9: "< 0.01 %", 0.99999: "> 99.99 %", 0.5: "50.00 %"} {
		require.Equal(t, want, percentText(share))
	}
}

func TestFieldsAddedToInputsAreShown(t *testing.T) {
	require.Equal(t, []fact{{"rate", "1,000"}, {"warm up", "300 ms"}, {"p50", "450 µs"}, {"on", "yes"}, {"off", "no"}, {"list", "a, b"},
		{"empty list", "none"}, {"name", "none"}},
		facts(struct {
			Rate   int      `json:"rate"`
			WarmUp float64  `json:"warm_up_ms"`
			P50    float64  `json:"p50_us"`
			On     bool     `json:"on"`
			Off    bool     `json:"off"`
			List   []string `json:"list"`
			Empty  []string `json:"empty_list"`
			Name   string   `json:"name"`
		}{1000, 300, 450, true, false, []string{"a", "b"}, nil, ""}))
}

func TestComparisonReportsAFullDisk(t *testing.T) {
	a := saved(t, "a.json", sample())
	var stderr bytes.Buffer
	require.Equal(t, exitNothing, run(t.Context(), []string{"compare", a, a}, fullDisk{}, &stderr))
	require.Contains(t, stderr.String(), "no space left")
}
