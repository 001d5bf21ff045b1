package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func holders(key string, servers []*miniredis.Miniredis) (n int) {
	for _, s := range servers {
		if s.Exists(key) {
			n++
		}
	}
	return n
}

func TestReleaseFreesALockByItsToken(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	got := i.run(t, "release", "job", "--token", token)
	assert.Equal(t, outcome{0, "released job, held with " + token + "\n", ""}, got)
	assert.Zero(t, holders("job", servers))
}

func TestReleaseWorksWithALongNodeTimeout(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	got := i.run(t, "release", "job", "--token", token, "--node-timeout", "30s")
	assert.Equal(t, outcome{0, "released job, held with " + token + "\n", ""}, got)
}

func TestReleaseWorksBelowTheLongestTTL(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Second, servers...)
	got := i.run(t, "release", "job", "--token", token, "--max-ttl", "2s")
	assert.Zero(t, got.status, got.err)
	assert.Zero(t, holders("job", servers))
}

func TestReleaseByTokenLeavesTheLockOfAnother(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	for _, key := range []string{"job", "free"} {
		got := i.run(t, "release", key, "--token", "web2:1/BBBBBBBBBBBBBBBBBBBBBB")
		assert.Equal(t, outcome{exitNo, "", `redlock: "` + key + "\" is not held with this token; redlock status tells with which\n"}, got)
	}
	assert.Equal(t, 3, holders("job", servers))
	assert.Greater(t, servers[0].TTL("job"), 50*time.Second)
}

func TestForceReleasesWhateverTheNodesHold(t *testing.T) {
	servers, i := embedded(t, 5)
	put(t, "job", token, time.Minute, servers[:3]...)
	put(t, "job", "left over", 0, servers[3])
	got := i.run(t, "release", "job", "--force", "--yes")
	assert.Equal(t, outcome{0, "released job, held with " + token + "\nreleased job, held with left over\n", ""}, got)
	assert.Zero(t, holders("job", servers))

	put(t, "job", "minority", 0, servers[1:3]...)
	got = i.run(t, "release", "job", "--force", "--yes")
	assert.Equal(t, outcome{0, "released job, held with minority\n", ""}, got)
	assert.Zero(t, holders("job", servers))
}

func TestForceOnAKeyThatIsNotHeldSaysSo(t *testing.T) {
	servers, i := embedded(t, 3)
	got := i.run(t, "release", "job", "--force", "--yes")
	assert.Equal(t, outcome{exitNo, "", "redlock: \"job\" is not held\n"}, got)
	_, err := servers[1].Lpush("job", "x")
	require.NoError(t, err)
	got = i.run(t, "release", "job", "--force", "--yes")
	assert.Equal(t, outcome{exitNo, "", "redlock: \"job\" is not held; " + servers[1].Addr() + ": holds a list, not a lock\n"}, got)
	assert.True(t, servers[1].Exists("job"))
}

func TestForceAsksAPersonAndNobodyElse(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)

	got := i.run(t, "release", "job", "--force")
	assert.Equal(t, outcome{exitUsage, "", "redlock: nobody can be asked here; --force --yes releases without asking\n"}, got)

	i.asks = true
	for _, answer := range []string{"\n", "n\n", "no\n", "yesterday\n", ""} {
		i.input = answer
		got = i.run(t, "release", "job", "--force")
		assert.Equal(t, exitNo, got.status, "%q", answer)
		assert.True(t, strings.HasSuffix(got.err, "Its holder may be at work. [y/N] redlock: nothing was released\n"), got.err)
		assert.Contains(t, got.err, servers[2].Addr()+": holds "+token, "who is asked sees what it is about")
		assert.Equal(t, 3, holders("job", servers))
	}
	for _, answer := range []string{"y\n", "YES\r\n"} {
		put(t, "job", token, time.Minute, servers...)
		i.input = answer
		got = i.run(t, "release", "job", "--force")
		assert.Zero(t, got.status)
		assert.Zero(t, holders("job", servers))
	}
}

// readerFunc answers when it is asked.
type readerFunc func() string

func (f readerFunc) Read(b []byte) (int, error) { return copy(b, f()), io.EOF }

func TestAnInterruptEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	defer close(over)
	r := release{app: &app{asks: true, err: io.Discard, in: readerFunc(func() string {
		cancel()
		<-over
		return "y\n"
	})}}
	assert.ErrorIs(t, r.confirm(ctx, &redlock.State{Key: "job"}), context.Canceled)
}

func TestForceReleasesTheRestWhereOneTokenHasGoneMeanwhile(t *testing.T) {
	servers, i := embedded(t, 5)
	put(t, "job", "one", time.Minute, servers[:2]...)
	put(t, "job", "two", time.Minute, servers[2:4]...)
	var out, err strings.Builder
	a := &app{asks: true, out: &out, err: &err, getenv: func(name string) string { return i.env[name] }, in: readerFunc(func() string {
		put(t, "job", "three", time.Minute, servers[:2]...)
		return "y\n"
	})}
	assert.Equal(t, exitNo, a.execute([]string{"release", "job", "--force", "--config", os.DevNull}))
	assert.Equal(t, "released job, held with two\n", out.String())
	assert.Contains(t, err.String(), `redlock: "job" is not held with this token`)
	assert.Equal(t, 2, holders("job", servers), "what was acquired anew is left alone")
	assert.Greater(t, servers[0].TTL("job"), 50*time.Second)
}

func TestReleaseSaysSoWhenTooFewNodesAnswer(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	servers[0].Close()
	servers[1].Close()
	for _, how := range []string{"--token=" + token, "--force"} {
		got := i.run(t, "release", "job", how, "--yes")
		assert.Equal(t, exitNoQuorum, got.status, how)
		assert.Contains(t, got.err, "redlock check tells what is wrong with the nodes")
	}
	assert.True(t, servers[2].Exists("job"))
}

func TestAReleaseByTheCommandWakesWhoWaits(t *testing.T) {
	_, i := embedded(t, 3)
	var urls []string
	for _, addr := range strings.Split(i.env["REDLOCK_NODES"], ",") {
		urls = append(urls, "redis://"+addr)
	}
	open := func() *redlock.Locker {
		l, err := redlock.Open(urls, redlock.WithBackoff(time.Hour, time.Hour)) // so that a wake-up alone can bring the lock
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	holder, waiter := open(), open()
	lock, err := holder.TryAcquire(t.Context(), "job", time.Minute)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := waiter.Acquire(t.Context(), "job", time.Minute, redlock.Wait(time.Minute))
		got <- err
	}()
	require.Eventually(t, func() bool { return waiter.Stats().Attempts >= 2 }, 10*time.Second, time.Millisecond)
	assert.Zero(t, i.run(t, "release", "job", "--token", lock.Token()).status)
	require.NoError(t, <-got)
	assert.ErrorIs(t, lock.Release(t.Context()), redlock.ErrLost)
}
