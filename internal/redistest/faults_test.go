package redistest

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelayHoldsEachDirectionBack(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	p.Delay(30*time.Millisecond, 20*time.Millisecond)
	begin := time.Now()
	require.NoError(t, c.Ping(ctx).Err())
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)

	p.Delay(0, time.Hour)
	conn := raw(t, p.Addr())
	say(t, conn, "SET replied 1")
	eventually(t, func() bool { return m.Exists("replied") }, "requests are not delayed")
	p.Delay(time.Hour, 0)
	hear(t, conn, "+OK\r\n")
	say(t, conn, "SET asked 1")
	requireTimeout(t, c.Ping(ctx).Err()) // leaves the other one time to arrive
	require.False(t, m.Exists("asked"))
	p.Delay(0, 0)
	hear(t, conn, "+OK\r\n")
	require.True(t, m.Exists("asked"))
}

func TestHangKeepsEverythingUntilResume(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	old := raw(t, p.Addr())
	say(t, old, "PING")
	hear(t, old, "+PONG\r\n")
	p.Hang()
	requireTimeout(t, c.Set(ctx, "timed out", 1, 0).Err())
	fresh := raw(t, p.Addr())
	say(t, fresh, "SET fresh 1", "GET fresh")
	say(t, old, "SET old 1")
	require.NoError(t, old.Close())
	closed := raw(t, p.Addr())
	say(t, closed, "SET closed 1")
	require.NoError(t, closed.Close())
	big := strings.Repeat("x", 1<<20) // more than the proxy keeps
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(fresh, encode("SET big "+big))
		written <- err
	}()
	require.NoError(t, fresh.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := fresh.Read(make([]byte, 1))
	requireTimeout(t, err)
	require.Empty(t, m.Keys())

	require.NoError(t, fresh.SetReadDeadline(time.Now().Add(soon)))
	p.Resume()
	hear(t, fresh, "+OK\r\n$1\r\n1\r\n+OK\r\n")
	require.NoError(t, <-written)
	eventually(t, func() bool { return len(m.Keys()) == 5 }, "what was kept flows on")
	got, err := m.Get("big")
	require.NoError(t, err)
	require.Equal(t, big, got)
	eventually(t, func() bool { return len(p.open()) == 1 }, "closed connections end")
	require.NoError(t, c.Ping(ctx).Err())
}

func TestHangKeepsTheServersEndFromTheClient(t *testing.T) {
	m, p, _ := proxied(t)
	conn := raw(t, p.Addr())
	say(t, conn, "PING")
	hear(t, conn, "+PONG\r\n")
	p.Hang()
	m.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	requireTimeout(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
	p.Resume()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestCutBeforeKeepsTheRequestFromTheServer(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	p.CutBefore()
	require.Error(t, c.Set(ctx, "k", 1, 0).Err())
	require.False(t, m.Exists("k"))
	require.NoError(t, c.Set(ctx, "k", 2, 0).Err(), "it strikes once")
	require.Equal(t, 2, p.Dials())

	p.CutEachBefore()
	for range 3 {
		require.Error(t, c.Set(ctx, "k", 3, 0).Err())
	}
	p.Heal()
	require.Equal(t, "2", c.Get(ctx, "k").Val())
}

func TestCutAfterLosesTheReplyOfAnExecutedRequest(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	p.CutAfter()
	require.Error(t, c.Set(ctx, "k", 1, 0).Err())
	require.True(t, m.Exists("k"))
	require.NoError(t, c.Set(ctx, "k", 2, 0).Err(), "it strikes once")

	p.CutEachAfter()
	conn := raw(t, p.Addr())
	say(t, conn, "INCR n", "INCR n")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	n, err := m.Get("n")
	require.NoError(t, err)
	require.Equal(t, "2", n, "all of the pipeline was executed")
	p.Heal()
	require.NoError(t, c.Ping(ctx).Err())
}

func TestDroppedRepliesLeaveNoConnectionOutOfStep(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	conn := raw(t, p.Addr())
	p.DropReplies()
	requireTimeout(t, c.Set(ctx, "k", 1, 0).Err())
	require.True(t, m.Exists("k"))
	say(t, conn, "SET k 2")
	eventually(t, func() bool { return len(p.open()) == 1 && p.spoilt() == 1 }, "its reply was dropped, and the other one is gone")
	p.Heal()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "closed rather than out of step")
	require.Equal(t, "2", c.Get(ctx, "k").Val())
}

// spoilt counts the connections that Heal would close.
func (p *Proxy) spoilt() (n int) {
	for _, l := range p.open() {
		if l.ledger.spoilt() {
			n++
		}
	}
	return n
}

func TestRefuseResetsNewConnectionsAlone(t *testing.T) {
	ctx := t.Context()
	_, p, c := proxied(t)
	p.Refuse()
	require.NoError(t, c.Ping(ctx).Err())
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil { // the reset may come before Dial returns or after
		require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, conn.Close())
	}
	require.Error(t, err)
	if runtime.GOOS != "windows" { // wine ends a connection in order before it resets it
		require.NotErrorIs(t, err, io.EOF)
	}
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 2, p.Dials())
	p.Heal()
	other := dial(t, p.URL())
	require.NoError(t, other.Ping(ctx).Err())
}

func TestFaultsMaySwitchUnderTraffic(t *testing.T) {
	_, p, c := proxied(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	switches := []func(){
		p.Hang, p.Resume, p.CutBefore, p.CutAfter, p.CutEachAfter, p.DropReplies, p.Refuse, p.Heal, p.Heal,
		func() { p.Delay(time.Millisecond, time.Millisecond) }, func() { _ = p.String() },
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				_ = c.Incr(ctx, "n").Err()
			}
		})
	}
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil {
				switches[rand.IntN(len(switches))]()
				time.Sleep(time.Millisecond)
			}
		})
	}
	running.Wait()
	p.Heal()
	fresh := dial(t, p.URL())
	require.NoError(t, fresh.Ping(t.Context()).Err())
}

func TestFaultsInFrontOfARealServer(t *testing.T) {
	ctx := t.Context()
	s := ForTest(t, 1)[0]
	direct := client(t, s)
	p := ProxyForTest(t, s.Addr())
	pipeline := slices.Repeat([]string{"INCR n"}, 3000) // in several pieces, and replies come before the last of them
	p.CutAfter()
	conn := raw(t, p.Addr())
	say(t, conn, pipeline...)
	got, _ := io.ReadAll(conn) // ends with the cut: a reset if that left something unread
	require.Empty(t, got)
	require.NotZero(t, direct.Get(ctx, "n").Val())
	require.Equal(t, 1, p.Dials())

	p.Hang()
	require.NoError(t, direct.Set(ctx, "n", 0, 0).Err())
	closed := raw(t, p.Addr())
	say(t, closed, pipeline...)
	require.NoError(t, closed.Close())
	require.Equal(t, "0", direct.Get(ctx, "n").Val())
	p.Resume()
	eventually(t, func() bool { return direct.Get(ctx, "n").Val() == "3000" }, "what a closed connection sent is executed")
	eventually(t, func() bool { return len(p.open()) == 0 }, "and the connection ends")
}
