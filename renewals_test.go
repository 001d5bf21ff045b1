package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd fills the window of renewals in flight, so that those that fall due have to wait; the
// returned function lets them go on.
func (l *Locker) crowd() (disperse func()) {
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	l.renewals.pacer.inFlight += 1_000_000
	return func() {
		l.renewals.mu.Lock()
		l.renewals.pacer.inFlight -= 999_999
		l.renewals.mu.Unlock()
		l.renewals.done(ending{})
	}
}

func (l *Locker) queued() int {
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	return len(l.renewals.pacer.queue)
}

func (l *Locker) renewalsInFlight() int {
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	return l.renewals.pacer.inFlight
}

// manyHeld acquires so many locks as fast as the nodes can.
func (w *world) manyHeld(l *Locker, locks int, ttl time.Duration) {
	w.t.Helper()
	var wg sync.WaitGroup
	for c := range 100 {
		wg.Go(func() {
			for i := c; i < locks; i += 100 {
				w.hold(l, fmt.Sprint("k", i), ttl, AutoRenew())
			}
		})
	}
	wg.Wait()
}

// All are due within moments of each other, and together are many times what the nodes serve within
// a node timeout. Each is kept, since they wait in the process and not at the nodes.
func TestThousandsOfLocksAreKeptByNodesThatServeAFewHundredInANodeTimeout(t *testing.T) {
	const locks = 1000
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.manyHeld(l, locks, 10*time.Second)
		for _, f := range w.nodes {
			f.limit(locks * 60) // a third of the locks a second: a renewal is some 180 bytes
		}
		time.Sleep(20 * time.Second)
		s := l.Stats()
		t.Logf("%d renewals, %d failed, %d lost", s.Renewed, s.Failed, s.Lost)
		require.Zero(t, s.Lost)
		require.GreaterOrEqual(t, int(s.Renewed), 3*locks)
		require.Less(t, int(s.Failed), locks/100)
	})
}

func TestThousandsOfLocksAreKeptThroughAnOutageOfAThirdOfTheirTTL(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		const locks = 500
		l := w.open()
		w.manyHeld(l, locks, 10*time.Second)
		for _, f := range w.nodes {
			f.limit(locks * 180)
		}
		time.Sleep(12 * time.Second)
		w.all((*fakeNode).hang)
		time.Sleep(3 * time.Second)
		w.all((*fakeNode).resume)
		time.Sleep(15 * time.Second)
		s := l.Stats()
		t.Logf("%d renewals, %d failed, %d lost", s.Renewed, s.Failed, s.Lost)
		require.Zero(t, s.Lost)
		require.Less(t, int(s.Failed), 3*locks/2, "nodes that are down are not asked for each lock again and again")
	})
}

func TestARenewalThatWaitsForItsTurnSaysHowLateItIs(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var renewed []RenewalInfo
		l := w.open(WithTrace(&Trace{Renewed: func(i RenewalInfo) { renewed = append(renewed, i) }}))
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		disperse := l.crowd()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		require.NoError(t, k.Err(), "a renewal that waits has not failed")
		require.Empty(t, renewed)
		require.Empty(t, w.nodes[0].commands("EVALSHA"))
		begin := time.Now()
		disperse()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Len(t, renewed, 1)
		require.NoError(t, renewed[0].Err)
		require.GreaterOrEqual(t, renewed[0].Late, 3*time.Second)
		require.LessOrEqual(t, renewed[0].Late, 4*time.Second)
		require.Less(t, renewed[0].Elapsed, 5*time.Millisecond, "its round began when it was launched")
		require.Equal(t, begin.Add(10*time.Second-102*time.Millisecond), k.Until())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(t, renewed, 2)
		require.Zero(t, renewed[1].Late)
		require.Zero(t, l.renewalsInFlight())
	})
}

func TestARenewalThatWaitsUntilTheValidityIsOverIsALoss(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		l.crowd()
		<-k.Done()
		require.Equal(t, 9898*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Zero(t, l.queued())
	})
}

func TestARenewalByHandIsNotQueued(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		disperse := l.crowd()
		time.Sleep(6 * time.Second)
		require.Equal(t, 1, l.queued())
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.Zero(t, l.queued(), "it is not due any more")
		disperse()
		time.Sleep(3 * time.Second)
		require.Len(t, w.nodes[0].commands("EVALSHA"), 1)
		time.Sleep(3 * time.Second)
		require.Len(t, w.nodes[0].commands("EVALSHA"), 2)
		require.Zero(t, l.renewalsInFlight())
	})
}

func TestALockThatEndsLeavesTheQueueOfRenewals(t *testing.T) {
	for name, end := range map[string]func(l *Locker, k *Lock){
		"released": func(_ *Locker, k *Lock) { _ = k.Release(context.Background()) },
		"closed":   func(l *Locker, _ *Lock) { _ = l.Close() },
		"lost":     func(*Locker, *Lock) { time.Sleep(5 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := w.open()
				k := w.hold(l, "orders", 10*time.Second, AutoRenew())
				l.crowd()
				time.Sleep(6 * time.Second)
				require.Equal(t, 1, l.queued())
				end(l, k)
				require.Zero(t, l.queued())
			})
		})
	}
}

func TestALockThatIsReleasedDuringItsAutomaticRenewalGivesItsPlaceBack(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		for _, f := range w.nodes {
			f.slow(50 * time.Millisecond)
		}
		for l.renewalsInFlight() == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, k.Release(t.Context()))
		synctest.Wait()
		require.Zero(t, l.renewalsInFlight())
	})
}

// Between the moment when the queue names a lock and its turn, a renewal by hand may have been quicker,
// or the lock may have ended or be in the queue again.
func TestATurnThatIsNotNeededAnyMoreGivesItsPlaceBack(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		turn := func() {
			l.renewals.mu.Lock()
			l.renewals.pacer.inFlight++
			l.renewals.mu.Unlock()
			k.renewInTurn()
			time.Sleep(10 * time.Millisecond)
			require.Zero(t, l.renewalsInFlight())
			require.Zero(t, l.queued())
		}
		turn() // not due
		require.Empty(t, w.nodes[0].commands("EVALSHA"))
		l.crowd()
		time.Sleep(6 * time.Second)
		require.Equal(t, 1, l.queued())
		l.renewals.mu.Lock()
		l.renewals.pacer.inFlight = 0 // without anybody being told
		l.renewals.mu.Unlock()
		turn()
		require.Len(t, w.nodes[0].commands("EVALSHA"), 1)
		require.NoError(t, k.Release(t.Context()))
		turn()
	})
}
