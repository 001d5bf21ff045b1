package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAcquireWaitsForTheHolder(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.AfterFunc(300*time.Millisecond, func() { _ = k.Release(context.Background()) })
		begin := time.Now()
		next, err := l.Acquire(t.Context(), "orders", 10*time.Second, Wait(5*time.Second))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
		require.Less(t, time.Since(begin), 900*time.Millisecond)
		require.NotEqual(t, k.Token(), next.Token())
	})
}

func TestAcquireWithoutDeadlineWaitsForTheWaitLimit(t *testing.T) {
	for limit, l := range map[time.Duration]func(w *world) *Locker{
		750 * time.Millisecond: func(w *world) *Locker { return w.open() },
		2 * time.Second:        func(w *world) *Locker { return w.open(WithWait(2 * time.Second)) },
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := l(w)
			w.hold(l, "orders", time.Minute)
			begin := time.Now()
			_, err := l.Acquire(t.Context(), "orders", 10*time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			waited := time.Since(begin)
			require.GreaterOrEqual(t, waited, limit)
			require.Less(t, waited, limit+handover, "the last attempt may be under way when the limit passes")
			var q *QuorumError
			require.ErrorAs(t, err, &q)
			require.Equal(t, waited, q.Elapsed)

			begin = time.Now()
			_, err = l.Acquire(t.Context(), "orders", 10*time.Second, Wait(3*time.Second))
			require.ErrorIs(t, err, ErrHeld)
			require.InDelta(t, 3*time.Second, time.Since(begin), float64(handover), "Wait overrides the limit")
		})
	}
}

func TestAcquireWaitsUntilTheDeadlineOfItsContext(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := l.Acquire(ctx, "orders", 10*time.Second)
		require.Equal(t, 5*time.Second, time.Since(begin), "longer than the wait limit")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld)

		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin = time.Now()
		_, err = l.Acquire(ctx, "orders", 10*time.Second, Wait(time.Second))
		require.InDelta(t, time.Second, time.Since(begin), float64(handover), "an explicit Wait bounds the call beside a deadline")
		require.ErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAcquireWithoutLimitWaitsAsLongAsItTakes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Minute)
		_, err := l.Acquire(t.Context(), "orders", time.Second, Wait(0))
		require.NoError(t, err)
		require.True(t, time.Now().After(k.Until()), "a crashed holder frees the key after its ttl")
		require.Less(t, time.Since(k.Until()), 7*time.Second)
	})
}

func TestCancelEndsTheWaitingAtOnce(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", time.Minute)
		for i := range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			after := time.Duration(37*i) * time.Millisecond
			time.AfterFunc(after, cancel)
			begin := time.Now()
			_, err := l.Acquire(ctx, "orders", time.Second)
			require.Equal(t, after, time.Since(begin))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, ErrNotAcquired)
			if after > time.Millisecond {
				require.ErrorIs(t, err, ErrHeld, "the last reason is told beside the ctx error")
			}
		}
	})
}

func TestAcquireOutwaitsAnOutage(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].crash()
		w.nodes[1].crash()
		time.AfterFunc(2*time.Second, w.nodes[0].restart)
		k, err := l.Acquire(t.Context(), "orders", 2*time.Second, Wait(10*time.Second))
		require.NoError(t, err)
		require.Equal(t, 2, k.Nodes())
	})
}

func TestContendersMakeProgressOneAtATime(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		var holders, grants atomic.Int32
		var wg sync.WaitGroup
		for i := range 10 {
			l := w.open(WithOwner(fmt.Sprint("host:", i)))
			wg.Go(func() {
				for range 3 {
					k, err := l.Acquire(t.Context(), "orders", 10*time.Second, Wait(0))
					require.NoError(t, err)
					require.EqualValues(t, 1, holders.Add(1), "two holders")
					grants.Add(1)
					time.Sleep(3 * time.Millisecond)
					holders.Add(-1)
					require.NoError(t, k.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 30, grants.Load())
		time.Sleep(time.Second)
		w.keyless("orders")
	})
}
