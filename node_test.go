package redlock

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func owed(n *node) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ledger.owed) + len(n.ledger.repeats)
}

func TestConcurrentCallsShareRoundTrips(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(10+i) * time.Millisecond)
		}
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				k := w.hold(l, fmt.Sprint("k", i), 10*time.Second)
				require.NoError(t, k.Release(t.Context()))
			})
		}
		wg.Wait()
		require.Less(t, time.Since(begin), 80*time.Millisecond, "a few round trips of 12 ms for 600 operations")
		require.Equal(t, 1, w.nodes[0].dialled(), "over one connection")
	})
}

func TestAQueuedAcquireOfALostAttemptIsNotSent(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes[:2] {
			f.vetoing(func(command string) string {
				if strings.HasPrefix(command, "SET late") {
					return "ERR no"
				}
				return ""
			})
		}
		w.nodes[2].slow(150 * time.Millisecond)
		first := w.hold(l, "first", 10*time.Second) // keeps the slow node's worker busy
		time.Sleep(time.Millisecond)
		_, err := l.TryAcquire(t.Context(), "late", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		held := w.hold(l, "held", 10*time.Second)
		time.Sleep(time.Second)
		require.Empty(t, w.nodes[2].commands("late"), "dropped from the queue, with nothing to undo")
		require.Equal(t, held.Token(), w.nodes[2].value("held"), "sent although the attempt was won without it")
		require.Equal(t, 3, first.Nodes())
	})
}

func TestADeadNodeIsProbedAFewTimesASecondAndCostsNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[1].crash()
		w.nodes[2].hang()
		dials := w.nodes[1].dialled()
		for i := range 300 {
			begin := time.Now()
			k, err := l.TryAcquire(t.Context(), fmt.Sprint("k", i), 10*time.Second)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.Nil(t, k)
			if i > 5 {
				require.Less(t, time.Since(begin), time.Millisecond)
				require.ErrorContains(t, err, "connection refused")
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, w.nodes[1].dialled()-dials, 60, "in half a minute")
		require.Less(t, owed(l.nodes[1]), 10, "nothing was sent, so nothing is owed")

		w.nodes[1].restart()
		w.nodes[2].resume()
		time.Sleep(3 * time.Second)
		k := w.hold(l, "after", 10*time.Second)
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, k.Nodes())
	})
}

func TestANodeThatCutsEveryConnectionIsNotDialledInALoop(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[1].vetoing(func(command string) string {
			if strings.HasPrefix(command, "SET ") {
				w.nodes[1].cut()
			}
			return ""
		})
		for i := range 2000 {
			require.NoError(t, w.hold(l, fmt.Sprint("k", i), 10*time.Second).Release(t.Context()))
			time.Sleep(5 * time.Millisecond)
		}
		require.Less(t, w.nodes[1].dialled(), 60, "in ten seconds")
	})
}

func TestANodeThatHungThroughLostAttemptsWakesUpWithNoneOfTheirKeys(t *testing.T) {
	for _, minutes := range []time.Duration{0, 5} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			for _, f := range w.nodes[:2] {
				require.NoError(t, f.server.Set("a", "someone"))
				require.NoError(t, f.server.Set("b", "someone"))
			}
			w.nodes[2].hang()
			for range 5 {
				for _, key := range []string{"a", "b"} {
					_, err := l.TryAcquire(t.Context(), key, 60*time.Second)
					require.ErrorIs(t, err, ErrHeld)
				}
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(minutes * time.Minute)
			w.nodes[2].resume()
			time.Sleep(2500 * time.Millisecond)
			require.Empty(t, w.nodes[2].value("a"))
			require.Empty(t, w.nodes[2].value("b"))
			if len(w.nodes[2].commands("SET a")) > 0 { // it did arrive, late
				require.GreaterOrEqual(t, len(w.nodes[2].commands("EVALSHA")), 2, "paid twice")
			}
		})
	}
}

func TestScriptsAreLoadedAgainInTheSameTurn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		for _, f := range w.nodes {
			f.flushScripts()
		}
		begin := time.Now()
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.Less(t, time.Since(begin), time.Millisecond)
		for _, f := range w.nodes {
			f.flushScripts()
		}
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestAnOverdueWorkerFailsFurtherCallsAtOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		l := w.openDefault()
		w.nodes[0].hang()
		_, err := l.TryAcquire(t.Context(), "a", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		begin := time.Now()
		_, err = l.TryAcquire(t.Context(), "b", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "no answer for 1.2s")
		require.Zero(t, time.Since(begin))
	})
}

func TestDebtsThatExpiredAreNotPaid(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 2*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[2].crash()
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(5 * time.Second)
		w.nodes[2].restart()
		time.Sleep(3 * time.Second)
		require.Empty(t, w.nodes[2].commands("orders")[1:], "the acquire alone")
		require.Zero(t, owed(l.nodes[2]))
	})
}

func TestADebtOutlivesItsKeyOnANodeWithASlowClock(t *testing.T) {
	now := after(0)
	k := lockOnHandSetClock(&now, time.Hour)
	k.ttl, k.panel.drift = time.Hour, k.locker.cfg.drift
	onNode := time.Duration(float64(k.ttl)*1.009) + time.Millisecond // within the allowance
	require.False(t, k.outlived(now).Over(after(onNode)))
	require.True(t, k.outlived(now).Over(after(k.ttl+k.ttl/50)), "but not for long")
}

func TestNodesThatHungForLongerThanTheTTLWakeUpWithNoKeyOfAReleasedLock(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() },
	} {
		for hung := 1; hung <= 3; hung++ {
			t.Run(fmt.Sprint(name, ", hung ", hung), func(t *testing.T) {
				inWorld(t, 3, func(t *testing.T, w *world) {
					k := w.hold(open(w), "orders", 10*time.Second)
					time.Sleep(time.Millisecond)
					for _, f := range w.nodes[:hung] {
						f.hang()
					}
					_ = k.Renew(t.Context(), 10*time.Second)
					time.Sleep(210 * time.Millisecond)
					_ = k.Release(t.Context())
					time.Sleep(time.Minute)
					w.all((*fakeNode).resume)
					time.Sleep(4 * time.Second)
					w.keyless("orders")
				})
			})
		}
	}
}

func TestAReleaseGoesWhereACutOffRenewalMayStillArrive(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 30*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[2].hang()
		require.NoError(t, k.Renew(t.Context(), 30*time.Second)) // cut off on node 2
		time.Sleep(time.Second)
		require.NoError(t, w.nodes[2].server.Set("orders", "someone"))
		k.mu.Lock()
		k.spots[2].place = absent // as after a renewal that was refused over another connection
		require.NotZero(t, k.spots[2].late)
		k.mu.Unlock()
		w.nodes[2].server.Del("orders")
		require.NoError(t, k.Release(t.Context()))
		w.nodes[2].resume() // the renewal heals the key now
		time.Sleep(3 * time.Second)
		w.keyless("orders")
	})
}
