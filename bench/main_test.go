package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // as main does
	// A client of go-redis that is closed while its dials fail sleeps off a second before it ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// unreachable is where nothing listens; nobody is given the port of a retired protocol.
const unreachable = "redis://:s3cret@127.0.0.1:1"

func runFor(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func runJSON(t *testing.T, ctx context.Context, args ...string) (int, result, string) {
	t.Helper()
	status, stdout, stderr := runFor(t, ctx, append(args, "-json")...)
	var r result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&r), stdout)
	require.False(t, decoder.More(), "one document")
	return status, r, stderr
}

func givenNodes(t *testing.T, n int) ([]string, []*miniredis.Miniredis) {
	t.Helper()
	var urls []string
	var servers []*miniredis.Miniredis
	for range n {
		server := miniredis.RunT(t)
		server.ClockTTL(true)
		servers = append(servers, server)
		urls = append(urls, "redis://"+server.Addr())
	}
	return urls, servers
}

func TestNoFlagsButADurationMeasuresEmbeddedNodes(t *testing.T) {
	status, r, stderr := runJSON(t, t.Context(), "-d", "100ms", "-c", "4")
	require.Equal(t, exitMeasured, status, stderr)
	require.Empty(t, stderr)
	require.Equal(t, "embedded", r.Inputs.Nodes)
	require.Equal(t, 4, r.Inputs.Keys, "one per caller")
	require.Len(t, r.Nodes, embeddedCount)
	require.Equal(t, 3, r.Quorum)
	require.False(t, r.Partial)
	require.GreaterOrEqual(t, r.MeasuredMs, 100.0)
	require.Empty(t, r.Failures)
	for _, op := range r.Results {
		require.Positive(t, op.Count, op.Operation)
		require.Positive(t, op.PerSecond, op.Operation)
		require.LessOrEqual(t, op.P50, op.P99)
		require.LessOrEqual(t, op.P999, op.Max)
	}
	for _, n := range r.Nodes {
		require.Contains(t, n.Version, "miniredis")
		require.Positive(t, n.Ping.Count)
		require.Zero(t, n.Failures)
	}
	require.NotNil(t, r.Floor)
	require.Positive(t, r.Floor.P50)
}

func TestSpawnedNodesAreIdentifiedAndStopped(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	status, r, stderr := runJSON(t, t.Context(), "-spawn", "3", "-d", "100ms", "-c", "4")
	require.Equal(t, exitMeasured, status, stderr)
	require.Equal(t, "spawned", r.Inputs.Nodes)
	require.Equal(t, 2, r.Quorum)
	require.Positive(t, r.locks())
	for _, n := range r.Nodes {
		require.Regexp(t, `^(Redis|Valkey|Memurai) \d`, n.Version)
		client := redis.NewClient(&redis.Options{Addr: n.Node, MaxRetries: -1, DialerRetries: 1})
		require.Error(t, client.Ping(t.Context()).Err(), "stopped")
		require.NoError(t, client.Close())
	}
}

func TestAbandonStopsSpawnedNodes(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	nodes, err := openNodes(settings{spawn: 1})
	require.NoError(t, err)
	c := &command{stdout: os.Stdout, stderr: os.Stderr}
	c.nodes.Store(nodes)
	c.abandon()
	options, err := probeOptions(nodes.urls[0])
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.Error(t, client.Ping(t.Context()).Err())
	require.NoError(t, nodes.stop(), "stopping again does nothing")
}

func TestUnreachableMinorityIsNamedAndTheRunGoesOn(t *testing.T) {
	urls, servers := givenNodes(t, 2)
	nodes := strings.Join(append(urls, unreachable), ",")
	status, stdout, stderr := runFor(t, t.Context(), "-nodes", nodes, "-d", "100ms", "-c", "2")
	require.Equal(t, exitMeasured, status, stderr)
	require.Contains(t, stdout, "3 nodes: quorum 2")
	require.Contains(t, stdout, "no answer from 127.0.0.1:1: ")
	require.Contains(t, stdout, "refused")
	require.NotContains(t, stdout+stderr, "s3cret")
	for _, server := range servers {
		require.Empty(t, server.Keys(), "nothing is left on the nodes")
	}
}

func TestHungNodeIsNamedThoughItNeverRefuses(t *testing.T) {
	urls, _ := givenNodes(t, 2)
	hung, err := net.Listen("tcp", "127.0.0.1:0") // the kernel connects, nobody answers
	require.NoError(t, err)
	defer hung.Close()
	nodes := strings.Join(append(urls, "redis://"+hung.Addr().String()), ",")
	status, r, stderr := runJSON(t, t.Context(), "-nodes", nodes, "-d", "100ms", "-c", "2")
	require.Equal(t, exitMeasured, status, stderr)
	require.Positive(t, r.locks())
	require.Zero(t, r.Nodes[2].Ping.Count)
	require.Positive(t, r.Nodes[2].Failures)
	require.Contains(t, r.Nodes[2].Error, "no answer within")
	require.NotNil(t, r.Floor, "a quorum answers")
}

func TestNoLockAtAllIsStatusOneWithTheReason(t *testing.T) {
	nodes := unreachable + ",redis://127.0.0.1:2"
	status, r, stderr := runJSON(t, t.Context(), "-nodes", nodes, "-d", "50ms")
	require.Equal(t, exitNothing, status)
	require.Contains(t, stderr, "no lock could be taken; 0 of 2 nodes answered pings, 2 needed: ")
	require.Contains(t, stderr, "refused")
	require.Equal(t, 1, strings.Count(stderr, "\n"), "one line")
	require.NotContains(t, stderr, "s3cret")
	require.Nil(t, r.Floor)
	require.Len(t, r.Failures, 1)
	require.Equal(t, "no quorum", r.Failures[0].Class)
	require.Positive(t, r.Failures[0].Count)
	require.NotEmpty(t, r.Failures[0].Example)
	require.Equal(t, latencies{}, r.Results[acquire].latencies)
}

func TestInterruptedRunPrintsWhatItHasAsPartial(t *testing.T) {
	urls, servers := givenNodes(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond) // beyond the warm-up
	defer cancel()
	status, stdout, stderr := runFor(t, ctx, "-nodes", urls[0], "-d", "1h", "-c", "2")
	require.Equal(t, exitInterrupted, status, stderr)
	require.Regexp(t, `PARTIAL: interrupted after .* of 1h`, stdout)
	require.Regexp(t, `acquire +[1-9]`, stdout)
	require.Empty(t, servers[0].Keys(), "nothing is left on the nodes")
}

func TestInterruptBeforeTheLoadMeasuresNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status, r, _ := runJSON(t, ctx, "-d", "1h")
	require.Equal(t, exitInterrupted, status)
	require.True(t, r.Partial)
	require.Zero(t, r.MeasuredMs)
}

func TestFewerKeysThanCallersShowRefusals(t *testing.T) {
	urls, servers := givenNodes(t, 1)
	status, stdout, stderr := runFor(t, t.Context(), "-nodes", urls[0], "-d", "200ms", "-c", "8", "-keys", "1")
	require.Equal(t, exitMeasured, status, stderr)
	require.Regexp(t, `acquire +held +[1-9]`, stdout)
	require.Contains(t, stdout, "acquire, held, for example:")
	require.Contains(t, stdout, "refused: "+servers[0].Addr())
	require.Empty(t, servers[0].Keys())
}

func TestHelpShowsTwoExamples(t *testing.T) {
	status, stdout, stderr := runFor(t, t.Context(), "-h")
	require.Equal(t, exitMeasured, status)
	require.Empty(t, stderr)
	require.Equal(t, 2, strings.Count(stdout, "  go run ./bench "))
}

func TestWrongFlagsAreStatusTwoAndOneLine(t *testing.T) {
	status, stdout, stderr := runFor(t, t.Context(), "-c", "0")
	require.Equal(t, exitUsage, status)
	require.Empty(t, stdout)
	require.Equal(t, 1, strings.Count(stderr, "\n"))
}
