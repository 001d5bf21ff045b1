package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/clock"
)

func TestLossIsToldAtUntilEvenIfEveryNodeHangs(t *testing.T) {
	for _, opts := range [][]AcquireOption{nil, {AutoRenew()}} {
		inWorld(t, 5, func(t *testing.T, w *world) {
			l := w.open()
			k := w.hold(l, "orders", 2*time.Second, opts...)
			ctx, cancel := k.Context(t.Context())
			defer cancel()
			for _, f := range w.nodes {
				f.hang()
			}
			<-k.Done()
			require.Zero(t, time.Until(k.Until()), "at until, not before or after")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			require.ErrorIs(t, k.Err(), ErrLost)
			require.ErrorContains(t, k.Err(), `"orders"`)
			require.Zero(t, k.Validity())

			begin := time.Now()
			require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrLost)
			require.Zero(t, time.Since(begin), "without any I/O")
			require.ErrorIs(t, k.Release(t.Context()), ErrLost)
			_, err := l.TryAcquire(t.Context(), "orders", 2*time.Second)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.LessOrEqual(t, time.Since(begin), 400*time.Millisecond)
		})
	}
}

func TestReleaseAfterUntilIsALossAndSaysByHowMuch(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Second)
		time.Sleep(time.Until(k.Until()) + 3200*time.Millisecond)
		next := w.hold(l, "orders", 10*time.Second)
		err := k.Release(t.Context())
		require.ErrorIs(t, err, ErrLost)
		require.NotErrorIs(t, err, ErrReleased)
		require.ErrorContains(t, err, "3.2s after")
		require.Equal(t, 3, w.count("orders", next.Token()), "nothing a former holder does touches the next one's key")
		require.ErrorIs(t, k.Release(t.Context()), ErrReleased)
		require.ErrorIs(t, k.Err(), ErrLost, "how it ended does not change")
	})
}

func TestSecondReleaseIsErrReleased(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Second)
		require.NoError(t, k.Release(t.Context()))
		require.ErrorIs(t, k.Release(t.Context()), ErrReleased)
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrReleased)
		require.NotErrorIs(t, k.Err(), ErrLost)
	})
}

func TestReleaseThatFindsTheTokenGoneOnAQuorumIsALoss(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		for i, f := range w.nodes[:3] {
			f.server.Del("orders")
			if i > 0 {
				require.NoError(t, f.server.Set("orders", "someone"))
			}
		}
		err := k.Release(t.Context())
		require.ErrorIs(t, err, ErrLost)
		time.Sleep(time.Millisecond)
		require.Equal(t, "someone", w.nodes[1].value("orders"))
		require.Equal(t, 0, w.count("orders", k.Token()))
	})
}

func TestReleaseIsNotALossWhereAMinorityForgot(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[0].server.Del("orders")
		w.nodes[1].server.Del("orders")
		require.NoError(t, k.Release(t.Context()))
	})
}

func TestReleaseComesBackAtTheNodeTimeoutWhenNoQuorumConfirms(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 60*time.Second)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes[:3] {
			f.hang()
		}
		begin := time.Now()
		err := k.Release(t.Context())
		require.Equal(t, 200*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, w.nodes[0].addr)
		require.ErrorIs(t, k.Err(), ErrReleased, "released locally all the same")
		for _, f := range w.nodes {
			f.resume()
		}
		time.Sleep(2500 * time.Millisecond)
		w.keyless("orders") // the debts were paid
	})
}

func TestReleaseWithACancelledContextLeavesNoKey(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", 10*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, k.Release(ctx))
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestReleaseFollowsItsAcquireOnASlowNode(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[2].slow(150 * time.Millisecond)
		for range 5 {
			k := w.hold(l, "orders", 10*time.Second)
			require.NoError(t, k.Release(t.Context()))
		}
		time.Sleep(3 * time.Second)
		w.keyless("orders")
	})
}

func TestThousandsOfAcquireRenewReleaseLeaveNoKey(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		var wg sync.WaitGroup
		for c := range 10 {
			wg.Go(func() {
				for i := range 20 {
					key := fmt.Sprintf("k%d", (c+i)%7)
					k, err := l.Acquire(t.Context(), key, time.Second, Wait(0), AutoRenew())
					require.NoError(t, err)
					renewed := make(chan error)
					go func() { renewed <- k.Renew(t.Context(), time.Second) }()
					require.NoError(t, k.Release(t.Context()))
					if err := <-renewed; err != nil {
						require.ErrorIs(t, err, ErrReleased)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
		for i := range 7 {
			w.keyless(fmt.Sprintf("k%d", i))
		}
		require.Empty(t, l.held)
	})
}

// sleepy is the clock of a machine that can be suspended.
type sleepy struct{ slept atomic.Int64 }

func (s *sleepy) now() clock.Instant {
	return clock.At(time.Now(), time.Duration(s.slept.Load()))
}

func (s *sleepy) sleeps(d time.Duration) { s.slept.Store(int64(d)) }

func TestASuspendedMachineFindsItsLocksLost(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		machine := &sleepy{}
		l.clock = machine.now
		k := w.hold(l, "orders", 10*time.Second)
		machine.sleeps(9 * time.Second)
		require.InDelta(t, 0.9, k.Validity().Seconds(), 0.1)
		require.NoError(t, k.Err())
		machine.sleeps(11 * time.Second)
		require.Zero(t, k.Validity())
		sent := len(w.nodes[0].commands("orders"))
		require.ErrorIs(t, k.Renew(t.Context(), 10*time.Second), ErrLost)
		require.ErrorIs(t, k.Err(), ErrLost)
		<-k.Done()
		require.Len(t, w.nodes[0].commands("orders"), sent)
	})
}

func TestContextOfAnEndedLockHasEnded(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", 10*time.Second)
		type name struct{}
		parent := context.WithValue(t.Context(), name{}, "v")
		ctx, cancel := k.Context(parent)
		require.NoError(t, ctx.Err())
		require.Equal(t, "v", ctx.Value(name{}))
		cancel()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.NoError(t, k.Err(), "the lock does not end with the context")
		require.NoError(t, k.Release(t.Context()))
		ctx, cancel = k.Context(parent)
		defer cancel()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
	})
}

func TestHandlesAreSafeForConcurrentUse(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Second, AutoRenew(), MaxHold(5*time.Second))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for range 5 {
					_, _, _, _, _ = k.Key(), k.Token(), k.Owner(), k.Until(), k.Nodes()
					if err := k.Renew(t.Context(), time.Second); err != nil {
						require.ErrorIs(t, err, ErrReleased)
					}
					ctx, cancel := k.Context(t.Context())
					_, _, _ = k.Validity(), k.Err(), ctx.Err()
					cancel()
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
				if i == 49 {
					require.NoError(t, k.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestDoRunsUnderTheLockAndReleases(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		err := l.Do(t.Context(), "orders", time.Second, func(ctx context.Context, k *Lock) error {
			time.Sleep(5 * time.Second) // renewed meanwhile
			require.NoError(t, ctx.Err())
			require.Equal(t, 3, w.count("orders", k.Token()))
			return nil
		})
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestDoReturnsTheErrorOfItsFunctionFirst(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		business := errors.New("out of stock")
		err := l.Do(t.Context(), "orders", time.Second, func(context.Context, *Lock) error { return business })
		require.Equal(t, business, err)

		err = l.Do(t.Context(), "orders", time.Second, func(ctx context.Context, k *Lock) error {
			for _, f := range w.nodes {
				f.hang()
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			return business
		})
		require.ErrorIs(t, err, business)
		require.ErrorIs(t, err, ErrLost)
		require.Regexp(t, "^out of stock", err.Error())
	})
}

func TestDoTellsOfALossThatItsFunctionDidNotNotice(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		err := w.open().Do(t.Context(), "orders", time.Second, func(ctx context.Context, k *Lock) error {
			for _, f := range w.nodes {
				f.hang()
			}
			time.Sleep(2 * time.Second)
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
	})
}

func TestDoWithoutTheLockDoesNotRunItsFunction(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", 10*time.Second)
		err := l.Do(t.Context(), "orders", time.Second, func(context.Context, *Lock) error { panic("ran") })
		require.ErrorIs(t, err, ErrHeld)
	})
}

func TestDoReleasesWhenItsFunctionPanicsOrReleasesItself(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		require.PanicsWithValue(t, "boom", func() {
			_ = l.Do(t.Context(), "orders", time.Second, func(context.Context, *Lock) error { panic("boom") })
		})
		time.Sleep(time.Millisecond)
		w.keyless("orders")
		err := l.Do(t.Context(), "orders", time.Second, func(ctx context.Context, k *Lock) error { return k.Release(ctx) })
		require.NoError(t, err)
	})
}
