package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

var sampleReport = &redlock.Report{
	Nodes: []redlock.NodeReport{
		{
			Node: "10.0.0.1:6379", Version: "redis 7.0.15", RunID: "aa", Role: "master", Uptime: 50*time.Hour + 3*time.Second,
			RoundTrip: 250 * time.Microsecond, ClockOffset: -5200 * time.Millisecond, ClockError: time.Millisecond,
			Persistence: "appendfsync always", Eviction: "noeviction", Connections: 3, MaxConnections: 10000,
		},
		{
			Node: "10.0.0.2:6379", Err: errors.New("connection refused"), Version: "unknown", RunID: "unknown", Role: "unknown",
			Uptime: -1, RoundTrip: -1, ClockError: -1, Persistence: "unknown", Eviction: "un\x1bknown",
			MaxMemory: -1, Connections: -1, MaxConnections: -1, Replicas: -1,
		},
	},
	Findings: []redlock.Finding{
		{Severity: redlock.Critical, Code: "replica", Node: "10.0.0.1:6379", Text: strings.Repeat("word ", 30)},
		{Severity: redlock.Warning, Code: "even-nodes", Text: "add one"},
		{Severity: redlock.Info, Code: "x", Node: "10.0.0.1:6379", Text: "same \x1b"},
		{Severity: redlock.Info, Code: "x", Node: "10.0.0.2:6379", Text: "same \x1b"},
	},
}

func TestACheckUpForPeople(t *testing.T) {
	var b strings.Builder
	require.NoError(t, writeReport(&b, sampleReport))
	assert.Equal(t, `NODE           VERSION       ROLE     UPTIME   ROUND TRIP  CLOCK    PERSISTENCE         EVICTION       CONNECTIONS
10.0.0.1:6379  redis 7.0.15  master   2d2h     0.25ms      -5.2s    appendfsync always  noeviction     3 of 10000
10.0.0.2:6379  unknown       unknown  unknown  unknown     unknown  unknown             "un\x1bknown"  unknown

1 critical, 1 warning, 2 for information

CRITICAL  replica  10.0.0.1:6379
    `+strings.TrimSpace(strings.Repeat("word ", 19))+`
    `+strings.TrimSpace(strings.Repeat("word ", 11))+`

WARNING  even-nodes
    add one

INFO  x  10.0.0.1:6379, 10.0.0.2:6379
    same �
`, b.String())
}

func TestACheckUpAsJSONHasNullForWhatIsNotKnown(t *testing.T) {
	var b strings.Builder
	require.NoError(t, writeJSON(&b, reportJSON(sampleReport)))
	var document map[string][]map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.String()), &document))
	told, silent := document["nodes"][0], document["nodes"][1]
	assert.Equal(t, -5200.0, told["clock_offset_ms"])
	assert.Equal(t, 0.25, told["round_trip_ms"])
	assert.Equal(t, 180003000.0, told["uptime_ms"])
	assert.Equal(t, 0.0, told["maxmemory_bytes"])
	assert.NotContains(t, told, "error")
	assert.Equal(t, "connection refused", silent["error"])
	for _, field := range []string{"uptime_ms", "round_trip_ms", "clock_offset_ms", "clock_error_ms", "maxmemory_bytes", "connections", "max_connections", "replicas"} {
		assert.Contains(t, silent, field)
		assert.Nil(t, silent[field], field)
	}
	assert.Equal(t, map[string]any{"severity": "warning", "code": "even-nodes", "node": "", "text": "add one"}, document["findings"][1])

	b.Reset()
	require.NoError(t, writeJSON(&b, reportJSON(&redlock.Report{})))
	assert.Contains(t, b.String(), `"findings": []`)
}

func TestTheWorstFindingIsTheExitStatus(t *testing.T) {
	for status, severities := range [][]redlock.Severity{
		{redlock.Info}, {redlock.Warning, redlock.Info}, {redlock.Critical, redlock.Warning},
	} {
		r := &redlock.Report{}
		for _, s := range severities {
			r.Findings = append(r.Findings, redlock.Finding{Severity: s})
		}
		assert.Equal(t, status, statusOf(verdict(r)))
	}
	assert.Zero(t, statusOf(verdict(&redlock.Report{})))
}

func TestRealServersCheckFindsWhatIsWrong(t *testing.T) {
	servers := redistest.ForTest(t, 3)
	i := invocation{env: map[string]string{"REDLOCK_NODES": nodeList(servers)}}
	got := i.run(t, "check")
	assert.Equal(t, 1, got.status, "they are on the same host")
	assert.Empty(t, got.err)
	assert.Contains(t, got.out, "0 critical")
	assert.Regexp(t, `(?m)^`+servers[0].Addr()+` +redis \d.* +master +\d+s `, got.out)

	require.NoError(t, client(t, servers[1].Addr()).ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, client(t, servers[1].Addr()).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	got = i.run(t, "check")
	assert.Equal(t, 2, got.status)
	assert.Contains(t, got.out, "CRITICAL  eviction  "+servers[1].Addr())
	got = i.run(t, "check", "--json")
	assert.Equal(t, 2, got.status)
	assert.Contains(t, got.out, `"code": "eviction"`)
	for _, s := range servers {
		assert.Zero(t, client(t, s.Addr()).DBSize(t.Context()).Val(), "no key is left")
	}
}
