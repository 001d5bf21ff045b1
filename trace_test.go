package redlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder writes down what a Trace tells.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) has(prefix string) bool {
	return slices.ContainsFunc(r.all(), func(s string) bool { return strings.HasPrefix(s, prefix) })
}

// trace calls back into the locker: it could not if a lock were held.
func (r *recorder) trace(l **Locker) *Trace {
	peek := func() {
		if *l != nil {
			(*l).Stats()
		}
	}
	return &Trace{
		AttemptDone: func(i AttemptInfo) { peek(); r.add("attempt %s %v", i.Key, i.Err == nil) },
		Waiting: func(i WaitInfo) {
			peek()
			r.add("waiting %s after %d for %v at %q", i.Key, i.Attempts, i.Delay > 0, i.Gate)
		},
		Waited: func(i WaitedInfo) { peek(); r.add("waited %s %v after %d", i.Key, i.Err == nil, i.Attempts) },
		Renewed: func(i RenewalInfo) {
			peek()
			r.add("renewed %s %v on %d late %v", i.Key, i.Err == nil, i.Nodes, i.Late)
		},
		Lost:         func(key string, err error) { peek(); r.add("lost %s: %v", key, err) },
		Released:     func(key string, held time.Duration, err error) { peek(); r.add("released %s %v", key, err == nil) },
		NodeDone:     func(i NodeInfo) { peek(); r.add("node %s %d calls %v", i.Node, i.Calls, i.Err == nil) },
		NodeDown:     func(node string, err error) { peek(); r.add("down %s: %v", node, err) },
		NodeUp:       func(node string, down time.Duration) { peek(); r.add("up %s", node) },
		VoteWithheld: func(node, key string, err error) { peek(); r.add("withheld %s %s: %v", node, key, err) },
		DebtPaid:     func(node, key string) { peek(); r.add("paid %s %s", node, key) },
	}
}

func TestTraceTellsWhatHappensWithoutALockHeld(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var r recorder
		var l *Locker
		l = w.open(WithTrace(r.trace(&l)))
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		_, err := l.Acquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(6 * time.Second)
		w.nodes[0].hang() // through the release, which it owes from then on
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Second)
		w.nodes[0].resume()
		w.nodes[1].crash()
		w.nodes[1].restart()
		w.notice(l)
		w.hold(l, "other", 10*time.Second)
		w.hold(l, "short", time.Second)
		time.Sleep(2 * time.Second)
		for _, want := range []string{
			"attempt orders true", "attempt orders false", "waiting orders after 2 for true at", "waited orders false after ", "renewed orders true on 3 late 0s", "released orders true",
			"node 10.0.0.1:6379 1 calls true", "down 10.0.0.1:6379: ", "up 10.0.0.1:6379", "paid 10.0.0.1:6379 orders",
			"withheld 10.0.0.2:6379 other: restarted ", `lost short: redlock: "short": lock lost: its validity ran out`,
		} {
			require.True(t, r.has(want), "%q is not in\n%s", want, strings.Join(r.all(), "\n"))
		}
	})
}

func TestStatsCountAndShowTheNodes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		lost := w.hold(l, "lost", time.Second)
		require.Equal(t, 2, l.Stats().Holding)
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		<-lost.Done()
		waiting := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "orders", 10*time.Second, Wait(5*time.Second))
			waiting <- err
		}()
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, l.Stats().Waiting)
		require.ErrorIs(t, <-waiting, ErrHeld)
		for _, f := range w.nodes[1:] {
			f.crash()
		}
		time.Sleep(time.Millisecond)
		_, err = l.TryAcquire(t.Context(), "other", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Error(t, k.Renew(t.Context(), 10*time.Second))
		require.Error(t, k.Release(t.Context()))

		s := l.Stats()
		require.Equal(t, []uint64{2, 1, 1, 1, 1, 1}, []uint64{s.Acquired, s.NoQuorum, s.Renewed, s.Failed, s.Lost, s.Released})
		require.Greater(t, s.Held, uint64(1))
		require.Zero(t, s.Holding)
		require.Zero(t, s.Waiting)
		require.True(t, s.Nodes[0].Up)
		require.Equal(t, w.nodes[0].addr, s.Nodes[0].Node)
		require.InDelta(t, 200*time.Microsecond, s.Nodes[0].RoundTrip, float64(50*time.Microsecond))
		require.False(t, s.Nodes[1].Up)
		require.Error(t, s.Nodes[1].Err)
		require.NotZero(t, s.Nodes[1].Debts, "the release")
		w.nodes[1].restart()
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, l.Stats().Nodes[1].Restarts)
		require.True(t, l.Stats().Nodes[1].Up)
	})
}

func TestTheLoggerTellsOfNodesAndLossesAlone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var out bytes.Buffer
		var mu sync.Mutex
		log := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return out.Write(b)
		}), nil))
		l := w.open(WithLogger(log))
		require.NoError(t, l.Do(t.Context(), "quiet", time.Second, func(context.Context, *Lock) error { return nil }))
		require.Empty(t, out.String())
		k := w.hold(l, "orders", time.Second)
		w.nodes[0].crash()
		require.NoError(t, w.hold(l, "other", time.Second).Release(t.Context()))
		w.nodes[0].restart()
		<-k.Done()
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"node down", "10.0.0.1:6379", "node up", "node restarted", "lock lost", "key=orders"} {
			require.Contains(t, out.String(), want)
		}
		require.Equal(t, 4, strings.Count(out.String(), "\n"), out.String())
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestNilTraceAndLoggerAreErrors(t *testing.T) {
	for name, opt := range map[string]Option{"WithTrace": WithTrace(nil), "WithLogger": WithLogger(nil)} {
		_, err := Open([]string{"redis://127.0.0.1:1"}, opt)
		require.ErrorContains(t, err, name)
	}
}
