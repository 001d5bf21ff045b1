package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// advised returns the advice on a subject, all of it in one text, with its warnings marked.
func advised(r *result, subject string) string {
	var all []string
	for _, a := range advise(r) {
		if a.Subject != subject {
			continue
		}
		if a.Warning {
			a.Text = "WARNING " + a.Text
		}
		all = append(all, a.Text)
	}
	return strings.Join(all, "\n")
}

func quorumOf(slowestP999 float64, names ...string) *result {
	r := sample()
	r.Nodes = nil
	for i, name := range names {
		p999 := slowestP999 / float64(i+1)
		r.Nodes = append(r.Nodes, node{Node: name, Ping: latencies{Count: 5000, P50: p999 / 9, P999: p999}})
	}
	r.Quorum = len(names)/2 + 1
	for i := range r.Results {
		r.Results[i].Max = slowestP999
	}
	return r
}

func TestNodeTimeoutFollowsTheSlowestNode(t *testing.T) {
	for _, c := range []struct {
		p999 float64
		want string
	}{
		{0.4, "at least 10 ms: 10 times the p99.9 of the slowest node's pings (a:1, 0.40 µs) is less"},
		{1_400, "at least 15 ms: 10 times the p99.9 of the slowest node's pings (a:1, 1.40 ms). The default, 200 ms, is enough"},
		{20_000, "at least 200 ms: "},
		{20_001, "WARNING at least 250 ms: "},
		{900_000, "WARNING at least 10 s: "},
	} {
		require.Contains(t, advised(quorumOf(c.p999, "a:1", "b:1", "c:1"), "node timeout"), c.want)
	}
	require.Contains(t, advised(quorumOf(30_000, "a:1", "b:1"), "node timeout"), "set WithNodeTimeout to 300 ms")
}

func TestNodesWithAFaultOrWithoutAnAnswerSayNothingOfTheNodeTimeout(t *testing.T) {
	r := quorumOf(900_000, "a:1", "b:1", "c:1")
	r.Nodes[1].Ping.P999 = 3_000
	r.Nodes[2] = node{Node: "c:1", Failures: 9}
	r.Faults = []faultSpan{{Node: "a:1"}}
	require.Contains(t, advised(r, "node timeout"), "at least 30 ms: 10 times the p99.9 of the slowest node's pings (b:1")
	r.Faults = append(r.Faults, faultSpan{Node: "b:1"})
	require.Contains(t, advised(r, "node timeout"), "unknown")
	r.Faults, r.Nodes[1].Ping.Count = nil, 40
	r.Nodes[0].Ping.Count = 0
	require.Contains(t, advised(r, "node timeout"), "only 40 pings")
}

func TestTTLLeavesRoomForRenewals(t *testing.T) {
	r := quorumOf(1_400, "a:1")
	require.Contains(t, advised(r, "ttl"), "at least 150 ms: 10 node timeouts of 15 ms")
	r.Results[renew].Max = 400_000
	require.Contains(t, advised(r, "ttl"), "at least 2 s: 4 times the longest acquire or renewal seen (400 ms)")
	r.Results[acquire].Max, r.Results[renew].Max, r.Inputs.Loop = 400_000, 1, openLoop
	require.Contains(t, advised(r, "ttl"), "at least 150 ms", "an open loop's acquires count from the schedule")
	r.Inputs.TTLMs = 50
	require.Contains(t, advised(r, "ttl"), "This run's, 50 ms, is shorter")
	require.Contains(t, advised(r, "ttl"), "WARNING")
}

func TestAdviceCountsTheFailuresThatAreSurvived(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	for n, want := range map[int]string{
		1: "1 node, quorum 1: no node may fail",
		2: "2 nodes, quorum 2: no node may fail",
		3: "3 nodes, quorum 2: one may fail, and locks are still taken",
		4: "4 nodes, quorum 3: one may fail, and locks are still taken; 4 survive no more than 3 do",
		5: "5 nodes, quorum 3: any 2 may fail, and locks are still taken",
	} {
		require.Equal(t, want, advised(quorumOf(100, names[:n]...), "failures"))
	}
	r := quorumOf(100, names...)
	r.Nodes[0].Ping.Count = 0
	require.Contains(t, advised(r, "failures"), "Only 4 answered a ping in this run: 1 more may fail")
	r.Nodes[1].Ping.Count, r.Nodes[2].Ping.Count = 0, 0
	require.Contains(t, advised(r, "failures"), "Only 2 answered a ping in this run: too few for any lock")
}

func TestNodesThatFailTogetherAreNamed(t *testing.T) {
	require.Empty(t, advised(quorumOf(1, "a:1", "b:1", "c:1"), "shared host"))
	require.Empty(t, advised(quorumOf(1, "a:1"), "shared host"))
	two := advised(quorumOf(1, "A.example:1", "b:1", "a.example.:2", "c:1", "d:1"), "shared host")
	require.Contains(t, two, "WARNING A.example:1, a.example.:2 share a host and fail together. ")
	require.Contains(t, advised(quorumOf(1, "localhost:1", "127.0.0.1:2", "[::1]:3"), "shared host"), "without it no quorum is left")
	r := quorumOf(1, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
	r.Inputs.Nodes = "embedded"
	require.Contains(t, advised(r, "shared host"), "in this process")
	r.Inputs.Nodes = "spawned"
	require.Contains(t, advised(r, "shared host"), "on this machine")
}

func TestRoundedNumbersAreNeverBelow(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		time.Nanosecond: time.Millisecond, 10 * time.Millisecond: 10 * time.Millisecond, 10*time.Millisecond + 1: 15 * time.Millisecond,
		61 * time.Millisecond: 80 * time.Millisecond, 81 * time.Millisecond: 100 * time.Millisecond,
		101 * time.Millisecond: 150 * time.Millisecond, 9 * time.Second: 10 * time.Second,
	} {
		require.Equal(t, want, niceAbove(d), d)
	}
	require.Equal(t, "1.5 s", millisText(1500*time.Millisecond))
}

func TestTheTableShowsAdvice(t *testing.T) {
	require.Contains(t, rendered(t, sample()), "\nadvice\n  node timeout: at least 10 ms")
}
