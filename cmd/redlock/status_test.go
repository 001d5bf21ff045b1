package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

const token = "web1:4711/AAAAAAAAAAAAAAAAAAAAAA"

func TestStatusTellsHeldFreeAndForeignKeys(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	put(t, "split", "one", time.Minute, servers[0])
	put(t, "split", "two", 0, servers[1])
	require.NoError(t, pushed(servers[2].Lpush("list", "x")))

	got := i.run(t, "status", "job", "free", "split", "list")
	assert.Zero(t, got.status, got.err)
	want := []string{
		`KEY +HELD +TTL +NODES +FENCE +TOKEN`,
		`job +yes +(60\.0|59\.\d)s +3 of 3 +- +` + token,
		`free +no +- +- +- +-`,
		`split +no +- +- +- +-`,
		`  ` + servers[0].Addr() + `: holds one for \d+\.\ds`,
		`  ` + servers[1].Addr() + `: holds two for none`,
		`list +no +- +- +- +-`,
		`  ` + servers[2].Addr() + `: holds a list, not a lock`,
	}
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	require.Len(t, lines, len(want), got.out)
	for i := range want {
		assert.Regexp(t, "^"+want[i]+"$", lines[i])
	}
}

func pushed(_ int, err error) error { return err }

func TestStatusSaysUnknownWhereTooFewNodesAnswer(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	first := servers[0].Addr() // which a closed one does not tell
	servers[0].Close()
	got := i.run(t, "status", "job")
	assert.Zero(t, got.status, got.err)
	assert.Regexp(t, `job +yes +\S+ +2 of 3`, got.out)
	assert.Contains(t, got.out, "  "+first+": ")

	servers[1].Close()
	got = i.run(t, "status", "job")
	assert.Equal(t, exitNoQuorum, got.status)
	assert.Regexp(t, `job +unknown`, got.out)
	assert.Contains(t, got.out, servers[2].Addr()+": holds "+token)
	assert.Regexp(t, `^redlock: inspect "job": no quorum: 1 of 2 needed .*\(redlock check tells what is wrong with the nodes\)\n$`, got.err)

	got = i.run(t, "status", "--json", "job")
	assert.Equal(t, exitNoQuorum, got.status)
	var keys []map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &keys))
	assert.Nil(t, keys[0]["held"])
	assert.Contains(t, keys[0]["error"], "no quorum")
}

func TestStatusAsJSON(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers[:2]...)
	put(t, "foreign", "x", 0, servers...)
	got := i.run(t, "status", "--json", "job", "foreign", "free")
	require.Zero(t, got.status, got.err)
	var keys []keyJSON
	require.NoError(t, json.Unmarshal([]byte(got.out), &keys))
	require.Len(t, keys, 3)
	job, foreign, free := keys[0], keys[1], keys[2]
	assert.True(t, *job.Held)
	assert.Equal(t, token, job.Token)
	assert.Equal(t, "web1:4711", job.Owner)
	assert.InDelta(t, 60_000, *job.TTL, 10_000)
	assert.Equal(t, servers[0].Addr(), job.Nodes[0].Node)
	assert.Equal(t, nodeJSON{Node: servers[2].Addr()}, job.Nodes[2])
	assert.EqualValues(t, -1, *foreign.TTL)
	assert.Empty(t, foreign.Owner)
	assert.False(t, *free.Held)
	assert.Nil(t, free.TTL)
}

func TestTextsOfOthersCannotMoveTheCursor(t *testing.T) {
	servers, i := embedded(t, 1)
	put(t, "job", "\x1b[2Jowned\r\n", time.Minute, servers...)
	put(t, "long", strings.Repeat("x", 1000), time.Minute, servers...)
	put(t, "other bytes", "\x9b2J\xff", time.Minute, servers...) // ESC [ and an escape character of the table's
	got := i.run(t, "status", "--all-nodes", "job", "long", "no\x07pe", "other bytes")
	assert.Zero(t, got.status)
	assert.NotContains(t, got.out, "\x1b")
	assert.NotContains(t, got.out, "\r")
	assert.NotContains(t, got.out, "\x07")
	assert.Contains(t, got.out, `"\x1b[2Jowned\r\n"`)
	assert.Regexp(t, `other bytes +yes +\S+ +1 of 1 +- +"\\x9b2J\\xff"\n`, got.out)
	assert.NotContains(t, got.out, strings.Repeat("x", printableRunes+1))
}

func TestWatchShowsTheKeysAnewUntilItIsInterrupted(t *testing.T) {
	servers, i := embedded(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var out watched
	out.seen = func(frames int) {
		switch frames {
		case 1:
			put(t, "job", token, time.Minute, servers...)
		case 3:
			cancel()
		}
	}
	s := status{app: &app{out: &out, redraws: true}, watch: true, every: 10 * time.Millisecond}
	l, err := redlock.Open([]string{"redis://" + i.env["REDLOCK_NODES"]})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, s.execute(ctx, l, []string{"job"}))
	require.NoError(t, s.execute(ctx, l, []string{"job"}), "the end is no failure while the nodes are asked either")
	frames := strings.Split(out.String(), home)[1:]
	require.GreaterOrEqual(t, len(frames), 3)
	assert.Regexp(t, `every 10ms; Ctrl-C ends it\x1b\[K\n\x1b\[K\nKEY .*\x1b\[K\njob +no .*\x1b\[K\n\x1b\[J$`, frames[0])
	assert.Regexp(t, `\njob +yes `, frames[2])
}

func TestWatchThatCannotRedrawWritesNoEscapesAndEndsAtOnce(t *testing.T) {
	_, i := embedded(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	out := watched{seen: func(int) { cancel() }}
	s := status{app: &app{out: &out}, watch: true, every: time.Hour}
	l, err := redlock.Open([]string{"redis://" + i.env["REDLOCK_NODES"]})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, s.execute(ctx, l, []string{"job"}))
	assert.Regexp(t, `^KEY [^\x1b]*\n\n$`, out.String())
}

func TestANodeThatHoldsAnEmptyValueIsNoNodeWithoutTheKey(t *testing.T) {
	servers, i := embedded(t, 1)
	put(t, "job", "", time.Minute, servers...)
	assert.Contains(t, i.run(t, "status", "--all-nodes", "job").out, `holds "" for `)
	assert.Regexp(t, `(?s)"nodes".*"ttl_ms": (60000|59\d\d\d)\b`, i.run(t, "status", "--json", "job").out)
}

// watched is an output that counts what is written.
type watched struct {
	bytes.Buffer
	frames int
	seen   func(frames int)
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	w.frames++
	w.seen(w.frames)
	return n, err
}

func TestTTLPrintsWhatRedisCLIPrints(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, 90*time.Second, servers[0])
	put(t, "job", token, 59500*time.Millisecond, servers[1:]...)
	put(t, "endless", token, 0, servers...)
	for _, test := range []struct {
		args, out string
		status    int
	}{
		{"ttl job", "^60\n$", 0},
		{"ttl --ms job", `^59[45]\d\d\n$`, 0},
		{"ttl endless", "^-1\n$", 0},
		{"ttl free", "^-2\n$", exitNo},
		{"ttl --ms free", "^-2\n$", exitNo},
	} {
		got := i.run(t, strings.Fields(test.args)...)
		assert.Equal(t, test.status, got.status, test.args)
		assert.Regexp(t, test.out, got.out, test.args)
		assert.Empty(t, got.err)
	}
	servers[0].Close()
	servers[1].Close()
	got := i.run(t, "ttl", "job")
	assert.Equal(t, exitNoQuorum, got.status)
	assert.Empty(t, got.out)
}

func TestATTLIsRoundedUpToSeconds(t *testing.T) {
	for ttl, seconds := range map[time.Duration]int64{
		time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 0: 0, -1: -1,
	} {
		assert.Equal(t, seconds, ttlNumber(&redlock.State{Held: true, TTL: ttl}, false), ttl)
	}
}
