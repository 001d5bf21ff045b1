package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What keeps people waiting for such locks.

func TestFiftyContendersMakeProgress(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var lockers []*Locker
		for i := range 50 {
			lockers = append(lockers, w.open(WithOwner(fmt.Sprint("host:", i))))
		}
		var holders, attempts atomic.Int32
		begin := time.Now()
		var wg sync.WaitGroup
		for _, l := range lockers {
			wg.Go(func() {
				k, err := l.Acquire(t.Context(), "orders", 10*time.Second, Wait(time.Minute))
				require.NoError(t, err)
				require.EqualValues(t, 1, holders.Add(1), "two holders")
				time.Sleep(time.Millisecond)
				holders.Add(-1)
				require.NoError(t, k.Release(t.Context()))
				s := l.Stats()
				attempts.Add(int32(s.Acquired + s.Held + s.NoQuorum))
			})
		}
		wg.Wait()
		took := time.Since(begin)
		t.Logf("50 grants in %v: %.0f a second, %.1f attempts for each", took, 50/took.Seconds(), float64(attempts.Load())/50)
		require.Less(t, took, 15*time.Second)
		require.Less(t, attempts.Load(), int32(2500))
		time.Sleep(time.Second)
		w.keyless("orders")
	})
}

// The SETs wait in the sockets; their undo is refused by the overdue workers, and owed before it
// is known that the SETs were cut off.
func TestNodesThatHungForLongerThanTheTTLWakeUpWithNoKeyOfALostAttempt(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() },
	} {
		for hung := 1; hung <= 3; hung++ {
			t.Run(fmt.Sprint(name, ", hung ", hung), func(t *testing.T) {
				inWorld(t, 3, func(t *testing.T, w *world) {
					l := open(w)
					for _, f := range w.nodes[:hung] {
						f.hang()
					}
					if k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second); err == nil {
						require.NoError(t, k.Release(t.Context()))
					}
					time.Sleep(time.Minute)
					w.all((*fakeNode).resume)
					time.Sleep(4 * time.Second)
					w.keyless("orders")
				})
			})
		}
	}
}

// underWay runs call in a goroutine; its error comes on the channel.
func underWay(call func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

func TestCancelEndsEveryCallAtOnce(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() }, // whose clients sit out 5 s
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := open(w)
				k := w.hold(l, "orders", time.Minute)
				time.Sleep(time.Millisecond)
				w.all((*fakeNode).hang)
				ctx, cancel := context.WithCancel(t.Context())
				calls := map[string]chan error{
					"Renew":         underWay(func() error { return k.Renew(ctx, time.Minute) }),
					"another Renew": underWay(func() error { return k.Renew(ctx, time.Minute) }),
					"TryAcquire":    underWay(func() error { _, err := l.TryAcquire(ctx, "a", time.Minute); return err }),
					"Acquire":       underWay(func() error { _, err := l.Acquire(ctx, "b", time.Minute, Wait(0)); return err }),
					"Do": underWay(func() error {
						return l.Do(ctx, "c", time.Minute, func(context.Context, *Lock) error { panic("ran") })
					}),
				}
				time.Sleep(50 * time.Millisecond)
				cancel()
				begin := time.Now()
				for call, done := range calls {
					require.ErrorIs(t, <-done, context.Canceled, call)
					require.Zero(t, time.Since(begin), call)
				}
				require.NoError(t, k.Err())
			})
		})
	}
}

func TestAMinorityInAnyTroubleNeverMattersInAnyCall(t *testing.T) {
	replying := func(reply string) func(f *fakeNode) {
		return func(f *fakeNode) { f.runID = ""; f.vetoing(func(string) string { return reply }) }
	}
	for name, fault := range map[string]func(f *fakeNode){
		"name does not resolve": func(f *fakeNode) {
			f.crash()
			f.refuses = &net.DNSError{Err: "no such host", Name: "redis-2", IsNotFound: true}
		},
		"hung after accept":    (*fakeNode).hang,
		"replies lost":         (*fakeNode).mute,
		"slower than anything": func(f *fakeNode) { f.slow(time.Hour) },
		"cuts every connection": func(f *fakeNode) {
			f.vetoing(func(string) string { f.cut(); return "" })
		},
		"loading":       replying("LOADING Redis is loading the dataset in memory"),
		"busy":          replying("BUSY Redis is busy running a script"),
		"cannot write":  replying("MISCONF Redis is configured to save RDB snapshots"),
		"no rights":     replying("NOPERM this user has no permissions"),
		"knows nothing": replying("ERR unknown command"),
	} {
		for kind, open := range map[string]func(w *world) *Locker{
			"Open": func(w *world) *Locker { return w.openNow() },
			"New":  func(w *world) *Locker { return w.openDefault() },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				inWorld(t, 5, func(t *testing.T, w *world) {
					fault(w.nodes[0])
					fault(w.nodes[3])
					begin := time.Now()
					l := open(w)
					for i := range 3 {
						key := fmt.Sprint("orders", i)
						k := w.hold(l, key, 10*time.Second)
						require.NoError(t, k.Renew(t.Context(), 10*time.Second))
						require.NoError(t, k.Release(t.Context()))
						k, err := l.Acquire(t.Context(), key, 10*time.Second)
						require.NoError(t, err)
						require.NoError(t, k.Release(t.Context()))
						require.NoError(t, l.Do(t.Context(), key, 10*time.Second, func(context.Context, *Lock) error { return nil }))
					}
					require.Less(t, time.Since(begin), 40*time.Millisecond)
					begin = time.Now()
					_ = l.Close() // it names the nodes that are stuck
					require.LessOrEqual(t, time.Since(begin), 800*time.Millisecond)
					w.all((*fakeNode).resume)
					time.Sleep(time.Minute) // a client must not be closed in mid-handshake: mutexes stop virtual time
				})
			})
		}
	}
}

func TestReleaseOfALostLockIsOneBoundedRound(t *testing.T) {
	for name, fault := range map[string]func(f *fakeNode){
		"well": func(*fakeNode) {}, "hung": (*fakeNode).hang, "down": (*fakeNode).crash, "mute": (*fakeNode).mute,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				k := w.hold(w.open(), "orders", time.Second)
				time.Sleep(time.Minute)
				w.all(fault)
				begin := time.Now()
				require.ErrorIs(t, k.Release(t.Context()), ErrLost)
				require.LessOrEqual(t, time.Since(begin), 200*time.Millisecond)
				time.Sleep(time.Second)
				require.LessOrEqual(t, len(w.nodes[0].commands("EVALSHA")), 1)
			})
		})
	}
}

// Several keys in one lock do not exist in this version: whoever takes one after the other, in
// opposite orders, is told so by the wait limit.
func TestTwoLocksTakenInOppositeOrdersEndByTheWaitLimit(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		both := func(first, second string) func() error {
			l := w.open()
			return func() error {
				k := w.hold(l, first, time.Minute)
				defer func() { require.NoError(t, k.Release(t.Context())) }()
				time.Sleep(10 * time.Millisecond)
				_, err := l.Acquire(t.Context(), second, time.Minute)
				return err
			}
		}
		ab, ba := both("a", "b"), both("b", "a")
		begin := time.Now()
		one, other := underWay(ab), underWay(ba)
		err1, err2 := <-one, <-other
		require.ErrorIs(t, errors.Join(err1, err2), ErrHeld)
		require.Less(t, time.Since(begin), 1700*time.Millisecond)
	})
}

func TestScriptsThatVanishUnderLoadFailNoCall(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for range 3 {
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					k := w.hold(l, fmt.Sprint("k", i), 10*time.Second)
					require.NoError(t, k.Renew(t.Context(), 10*time.Second))
					require.NoError(t, k.Release(t.Context()))
				})
			}
			time.Sleep(300 * time.Microsecond) // in the middle of it
			w.all((*fakeNode).flushScripts)
			wg.Wait()
		}
		for i := range 20 {
			w.keyless(fmt.Sprint("k", i))
		}
	})
}

func TestTheNodesKeepAKeyForItsTTLAndLongerThanTheHolderBelieves(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		check := func(k *Lock, asked time.Duration) {
			time.Sleep(time.Millisecond)
			for _, f := range w.nodes {
				left := f.ttl("orders")
				require.LessOrEqual(t, left, asked.Truncate(time.Millisecond)-time.Millisecond)
				require.Greater(t, left, asked-3*time.Millisecond)
				require.Greater(t, left, k.Validity())
			}
		}
		for _, ttl := range []time.Duration{
			10 * time.Millisecond, 10*time.Millisecond + 999_999, 33_333_333, 1234*time.Millisecond + 567_890,
			1500 * time.Millisecond, 90 * time.Minute, 365 * 24 * time.Hour,
		} {
			k := w.hold(l, "orders", ttl)
			check(k, ttl)
			require.NoError(t, k.Renew(t.Context(), ttl+777_777))
			check(k, ttl+777_777)
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(time.Millisecond)
		}
	})
}

func TestAHundredWaitersNeitherSpinNorHang(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_, err := l.Acquire(ctx, "orders", time.Minute, Wait(0))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, ErrHeld)
			})
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 100, l.Stats().Waiting)
		attempts := l.Stats().Attempts
		t.Logf("%d attempts in 10 s", attempts)
		require.Less(t, attempts, uint64(80), "one of them asks, the others queue behind it")
		require.Greater(t, attempts, uint64(20), "a lost wake-up costs a back-off step")
		cancel()
		begin := time.Now()
		wg.Wait()
		require.Zero(t, time.Since(begin))
	})
}

func TestADegradedQuorumIsSeenAtTheFirstFailure(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var r recorder
		var l *Locker
		l = w.open(WithTrace(r.trace(&l)))
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		time.Sleep(time.Second)
		require.Equal(t, 3, k.Nodes())
		w.nodes[1].crash()
		time.Sleep(5 * time.Second) // one renewal
		require.NoError(t, k.Err(), "nothing has happened to the lock yet")
		require.Equal(t, 2, k.Nodes())
		require.True(t, r.has("down 10.0.0.2:6379"))
		s := l.Stats().Nodes[1]
		require.False(t, s.Up)
		require.ErrorContains(t, s.Err, "connection refused")

		other := w.open() // and waiting for a contended lock is visible too
		waiting := underWay(func() error { _, err := other.Acquire(t.Context(), "orders", time.Second); return err })
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, other.Stats().Waiting)
		require.ErrorIs(t, <-waiting, ErrHeld)
		require.Zero(t, other.Stats().Waiting)
		require.NotZero(t, other.Stats().Held)
	})
}
