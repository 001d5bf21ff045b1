package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/wire"
)

// acquiring is a call of Acquire on its way.
type acquiring struct {
	done chan struct{}
	lock *Lock
	err  error
	at   time.Time // when it came back
}

func (w *world) acquires(ctx context.Context, l *Locker, key string, ttl time.Duration, opts ...AcquireOption) *acquiring {
	a := &acquiring{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lock, a.err = l.Acquire(ctx, key, ttl, opts...)
		a.at = time.Now()
	}()
	return a
}

// waits is acquires for a caller that waits without limit, and is in the list when it returns.
func (w *world) waits(l *Locker, key string, opts ...AcquireOption) *acquiring {
	w.t.Helper()
	a := w.acquires(w.t.Context(), l, key, 10*time.Second, append([]AcquireOption{Wait(0)}, opts...)...)
	time.Sleep(10 * time.Millisecond)
	require.False(w.t, a.over(), "did not have to wait")
	return a
}

func (a *acquiring) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *acquiring) granted(t *testing.T) *Lock {
	t.Helper()
	<-a.done
	require.NoError(t, a.err)
	return a.lock
}

// gateOf returns the node at which l would queue for key.
func (w *world) gateOf(l *Locker, key string) *fakeNode { return w.nodes[l.gate(key, l.clock())] }

// listed returns how many channels wait for key at a node.
func (f *fakeNode) listed(key string) int {
	members, err := f.miniredis().ZMembers(listName(key))
	if err != nil {
		return 0
	}
	return len(members)
}

func (w *world) unlisted(key string) {
	w.t.Helper()
	for _, f := range w.nodes {
		require.Zero(w.t, f.listed(key), "%s still has a waiting list of %q", f.addr, key)
	}
}

// handover is a few round trips: the fake nodes answer after 0.2 ms.
const handover = 2 * time.Millisecond

// backoffStep is the longest time that a lost wake-up costs.
const backoffStep = 500*time.Millisecond + handover

func TestAReleaseHandsTheKeyToAWaitingLockerInAFewRoundTrips(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inWorld(t, nodes, func(t *testing.T, w *world) {
			a, b := w.open(), w.open()
			k := w.hold(a, "orders", 10*time.Second)
			for range 20 {
				next := w.waits(b, "orders")
				time.Sleep(3 * time.Second)
				released := time.Now()
				require.NoError(t, k.Release(t.Context()))
				k = next.granted(t)
				require.Less(t, next.at.Sub(released), handover)
				a, b = b, a
				require.NoError(t, k.Renew(t.Context(), 10*time.Second))
			}
		})
	}
}

// patient lockers make no attempt after a back-off, which may be lucky and overtake the list.
var patient = WithBackoff(time.Hour, time.Hour)

func TestLockersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Minute)
		var waiting []*acquiring
		for range 8 {
			waiting = append(waiting, w.waits(w.open(patient), "orders"))
		}
		for i, a := range waiting {
			released := time.Now()
			require.NoError(t, k.Release(t.Context()))
			k = a.granted(t)
			require.Less(t, a.at.Sub(released), handover)
			for _, later := range waiting[i+1:] {
				require.False(t, later.over())
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func TestCallersOfALockerAreServedInTheirOrderAndAskOneAtATime(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		first, err := l.Acquire(t.Context(), "orders", time.Minute)
		require.NoError(t, err)
		asked := len(w.nodes[0].commands("")) + len(w.nodes[1].commands(""))
		var waiting []*acquiring
		for range 20 {
			waiting = append(waiting, w.waits(l, "orders"))
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, asked, len(w.nodes[0].commands(""))+len(w.nodes[1].commands("")), "a locker does not contend with itself")
		require.Equal(t, 20, l.Stats().Waiting)
		require.Equal(t, uint64(1), l.Stats().Attempts)
		for i, a := range waiting {
			released := time.Now()
			require.NoError(t, first.Release(t.Context()))
			first = a.granted(t)
			require.Less(t, a.at.Sub(released), handover)
			require.Equal(t, uint64(2+i), l.Stats().Attempts, "one attempt for each grant")
		}
		w.unlisted("orders")
		require.Empty(t, w.nodes[0].commands("SUBSCRIBE"), "nobody had to be woken by a node")
	})
}

func TestALostLockGivesUpItsPlaceInTheLocalQueue(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k, err := l.Acquire(t.Context(), "orders", time.Second)
		require.NoError(t, err)
		next := w.waits(l, "orders")
		<-next.done
		require.NoError(t, next.err)
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Less(t, next.at.Sub(k.Until()), 50*time.Millisecond)
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		require.Equal(t, 3, w.count("orders", next.lock.Token()))
	})
}

func TestWhoGivesUpInTheLocalQueueIsToldSo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k, err := l.Acquire(t.Context(), "orders", time.Minute)
		require.NoError(t, err)
		begin := time.Now()
		_, err = l.Acquire(t.Context(), "orders", time.Minute)
		require.Equal(t, 750*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.EqualError(t, err, `redlock: acquire "orders": the key is held or awaited by this process: no node was asked`)

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "orders", time.Minute)
		require.Equal(t, 2750*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		last := w.waits(l, "orders") // whoever gave up in front of it does not hold it up
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, last.granted(t).Release(t.Context()))
		time.Sleep(time.Second)
		l.lines.mu.Lock()
		defer l.lines.mu.Unlock()
		require.Empty(t, l.lines.byKey, "the queue vanishes with its last caller")
	})
}

func TestWhoIsRefusedAfterBeingWokenKeepsItsPlace(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, newcomer := w.open(), w.open()
		k := w.hold(holder, "orders", time.Minute)
		first, second := w.waits(w.open(patient), "orders"), w.waits(w.open(patient), "orders")
		released := underWay(func() error { return k.Release(t.Context()) })
		time.Sleep(150 * time.Microsecond) // its SETs arrive behind the release
		lucky := w.hold(newcomer, "orders", time.Minute)
		require.NoError(t, <-released)
		time.Sleep(10 * time.Millisecond)
		third := w.waits(w.open(patient), "orders")
		for _, a := range []*acquiring{first, second, third} {
			require.NoError(t, lucky.Release(t.Context()))
			lucky = a.granted(t)
		}
	})
}

func TestALockerThatNeverPausesDoesNotStarveThoseWhoWait(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		greedy, other := w.open(), w.open()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		grants := 0
		group.Go(func() {
			for {
				k, err := greedy.Acquire(ctx, "orders", time.Minute, Wait(0))
				if err != nil {
					return
				}
				grants++
				require.NoError(t, k.Release(ctx))
			}
		})
		for range 100 {
			begin := time.Now()
			k, err := other.Acquire(t.Context(), "orders", time.Minute, Wait(0))
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 20*time.Millisecond)
			time.Sleep(100 * time.Microsecond)
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(time.Millisecond)
		}
		cancel()
		group.Wait()
		t.Logf("100 grants beside %d", grants)
	})
}

func TestWhoeverGivesUpLeavesTheList(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Minute)
		l := w.open()
		gate := w.gateOf(l, "orders")
		ctx, cancel := context.WithCancel(t.Context())
		first := w.acquires(ctx, l, "orders", time.Minute, Wait(0))
		second := w.acquires(t.Context(), l, "orders", time.Minute, Wait(time.Second))
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, gate.listed("orders"), "one entry for a locker")
		require.InDelta(t, wire.ListLife, gate.ttl(listName("orders")), float64(time.Second))
		cancel()
		<-first.done
		require.ErrorIs(t, first.err, context.Canceled)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, gate.listed("orders"), "its place goes to the next caller")
		<-second.done
		require.ErrorIs(t, second.err, ErrHeld)
		time.Sleep(10 * time.Millisecond)
		w.unlisted("orders")
		require.NoError(t, k.Release(t.Context()))
	})
}

func TestALockThatWasWaitedForLeavesNothingInTheList(t *testing.T) {
	for name, end := range map[string]func(k *Lock){
		"released": func(k *Lock) { require.NoError(t, k.Release(context.Background())) },
		"lost":     func(k *Lock) { <-k.Done() },
		"closed":   func(k *Lock) { require.NoError(t, k.locker.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				k := w.hold(w.open(), "orders", time.Minute)
				next := w.waits(w.open(), "orders")
				require.NoError(t, k.Release(t.Context()))
				end(next.granted(t))
				time.Sleep(10 * time.Millisecond)
				w.unlisted("orders")
			})
		})
	}
}

func TestAWakeUpForSomebodyWhoGivesUpIsPassedOn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for delay := time.Duration(0); delay < time.Millisecond; delay += 37 * time.Microsecond {
			k := w.hold(w.open(), "orders", time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			first := w.acquires(ctx, w.open(), "orders", time.Minute, Wait(0))
			time.Sleep(10 * time.Millisecond)
			second := w.waits(w.open(), "orders")
			released := time.Now()
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(delay)
			cancel()
			<-first.done
			if first.err == nil {
				require.NoError(t, first.lock.Release(t.Context()))
			}
			require.NoError(t, second.granted(t).Release(t.Context()))
			require.Less(t, second.at.Sub(released), 3*handover, "cancelled %v after the release", delay)
		}
	})
}

func TestAWaiterThatCrashedIsPassedOverAndForgottenWithinAMinute(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", 10*time.Minute)
		l := w.open()
		gate := w.gateOf(l, "orders")
		_, err := gate.miniredis().ZAdd(listName("orders"), 1, "redlock/crashed") // the first, and deaf
		require.NoError(t, err)
		gate.miniredis().SetTTL(listName("orders"), wire.ListLife)
		next := w.waits(l, "orders")
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		k = next.granted(t)
		require.Less(t, next.at.Sub(released), handover)

		_, err = gate.miniredis().ZAdd(listName("orders"), 1, "redlock/crashed")
		require.NoError(t, err)
		gate.miniredis().SetTTL(listName("orders"), wire.ListLife)
		next = w.waits(w.open(), "orders")
		require.NoError(t, k.Renew(t.Context(), 10*time.Minute))
		time.Sleep(wire.ListLife * 3 / 2) // others who wait do not keep its entry alive
		members, err := gate.miniredis().ZMembers(listName("orders"))
		require.NoError(t, err)
		require.Len(t, members, 1)
		require.NotContains(t, members, "redlock/crashed")
		require.NoError(t, k.Release(t.Context()))
		next.granted(t)
	})
}

func TestACrashedHoldersKeyIsTakenWhenItExpires(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		for _, n := range []time.Duration{300, 1500, 1234, 4321} {
			ttl := n * time.Millisecond
			w.hold(w.open(), "orders", ttl) // and never released
			begin := time.Now()
			var waiting []*acquiring
			for range 4 {
				waiting = append(waiting, w.waits(w.open(), "orders"))
			}
			time.Sleep(time.Until(begin.Add(ttl + 6*time.Millisecond)))
			taken := 0
			for _, a := range waiting {
				if a.over() {
					taken++
					require.Less(t, a.at.Sub(begin), ttl+5*time.Millisecond)
				}
			}
			require.Equal(t, 1, taken)
			var group sync.WaitGroup
			for _, a := range waiting {
				group.Go(func() { require.NoError(t, a.granted(t).Release(t.Context())) })
			}
			group.Wait()
		}
	})
}

func TestWhatGoesWrongAtTheGateCostsABackoffStep(t *testing.T) {
	const nodeTimeout = 200 * time.Millisecond
	for name, c := range map[string]struct {
		fault func(w *world, gate *fakeNode)
		bound time.Duration
	}{
		"crashed":         {func(_ *world, gate *fakeNode) { gate.crash() }, backoffStep},
		"hung":            {func(_ *world, gate *fakeNode) { gate.hang() }, backoffStep + nodeTimeout},
		"mute":            {func(_ *world, gate *fakeNode) { gate.mute() }, backoffStep + nodeTimeout},
		"restarted empty": {func(_ *world, gate *fakeNode) { gate.crash(); gate.restart() }, backoffStep},
		"connections cut": {func(_ *world, gate *fakeNode) { gate.cut() }, backoffStep},
		"list lost":       {func(_ *world, gate *fakeNode) { gate.miniredis().Del(listName("orders")) }, backoffStep},
		"list of a stranger": {func(_ *world, gate *fakeNode) {
			gate.miniredis().Del(listName("orders"))
			require.NoError(t, gate.miniredis().Set(listName("orders"), "not a list"))
		}, backoffStep},
		"no right to publish": {func(_ *world, gate *fakeNode) { gate.vetoing(forbidding("PUBLISH")) }, backoffStep},
		"no right to lists":   {func(_ *world, gate *fakeNode) { gate.vetoing(forbidding("Z")) }, backoffStep},
		"no scripts":          {func(w *world, _ *fakeNode) { w.all((*fakeNode).flushScripts) }, handover},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, func(t *testing.T, w *world) {
				holder, l := w.open(), w.open()
				gate := w.gateOf(l, "orders")
				k := w.hold(holder, "orders", time.Minute)
				for range 5 { // again and again: the gate is another one then, or refuses still
					next := w.waits(l, "orders")
					time.Sleep(time.Second)
					c.fault(w, gate)
					time.Sleep(time.Millisecond)
					released := time.Now()
					require.NoError(t, k.Release(t.Context()))
					k = next.granted(t)
					require.LessOrEqual(t, next.at.Sub(released), c.bound)
					gate.resume()
					holder, l = l, holder
				}
			})
		})
	}
}

func TestAReleaseReleasesWithoutAnyRightToLists(t *testing.T) {
	for _, right := range []string{"Z", "ZREM", "ZPOPMIN", "PUBLISH", "TIME", "ZADD"} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			k := w.hold(w.open(), "orders", time.Minute)
			w.all(func(f *fakeNode) { f.vetoing(forbidding(right)) })
			next := w.waits(w.open(), "orders")
			for range 2 {
				require.NoError(t, k.Release(t.Context()))
				time.Sleep(time.Millisecond)
				require.Zero(t, w.count("orders", k.Token()), right)
				for _, n := range k.locker.Stats().Nodes {
					require.Zero(t, n.Debts, right)
				}
				k = next.granted(t)
			}
		})
	}
}

func TestAReleaseBeforeTheSubscriptionStandsIsNotMissed(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for delay := time.Duration(0); delay < 2*time.Millisecond; delay += 43 * time.Microsecond {
			k := w.hold(w.open(), "orders", time.Minute)
			next := w.acquires(t.Context(), w.open(), "orders", time.Minute, Wait(0))
			time.Sleep(delay)
			released := time.Now()
			require.NoError(t, k.Release(t.Context()))
			require.NoError(t, next.granted(t).Release(t.Context()))
			require.Less(t, next.at.Sub(released), 2*handover, "released after %v", delay)
		}
	})
}

func TestWhoWaitsAtANodeThatIsGoneLooksForAnotherGateAtOnce(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		w.hold(w.open(), "orders", time.Minute)
		l := w.open()
		w.waits(l, "orders")
		for range 2 {
			gate := w.gateOf(l, "orders")
			gate.crash()
			time.Sleep(5 * time.Millisecond)
			require.NotSame(t, gate, w.gateOf(l, "orders"))
			require.Equal(t, 1, w.gateOf(l, "orders").listed("orders"))
		}
	})
}

func TestTheVoteOfARestartedGateIsWithheld(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, l := w.open(), w.open()
		k := w.hold(holder, "orders", 10*time.Second)
		next := w.waits(l, "orders")
		gate := l.gate("orders", l.clock())
		w.nodes[(gate+1)%3].miniredis().Del("orders") // as if it had been away: a lock on a bare quorum
		w.nodes[gate].crash()
		w.nodes[gate].restart()
		next.granted(t)
		require.True(t, next.at.After(k.Until()), "granted %v before the holder's end", k.Until().Sub(next.at))
	})
}

func TestALostAttemptWakesThoseInWhoseWayItStoodAtTheGate(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, l := w.open(), w.open()
		w.hold(holder, "orders", time.Hour)
		w.gateOf(l, "orders").miniredis().Del("orders") // so that newcomers win there, and nowhere else
		w.acquires(t.Context(), l, "orders", time.Minute, Wait(0))
		time.Sleep(10 * time.Second)
		for range 10 {
			attempts := l.Stats().Attempts
			_, err := holder.TryAcquire(t.Context(), "orders", time.Minute)
			require.ErrorIs(t, err, ErrHeld)
			time.Sleep(2 * time.Millisecond)
			require.Greater(t, l.Stats().Attempts, attempts)
			time.Sleep(3 * time.Second)
		}
	})
}

func TestALockerThatSawOthersWaitJoinsTheListAtOnce(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l, other := w.open(), w.open()
		k, err := l.Acquire(t.Context(), "orders", time.Minute)
		require.NoError(t, err)
		gate := l.gate("orders", l.clock())
		elsewhere := w.nodes[(gate+1)%3]
		next := w.waits(other, "orders")
		require.NoError(t, k.Release(t.Context()))
		k = next.granted(t)
		time.Sleep(100 * time.Millisecond)
		sets := len(elsewhere.commands("SET orders"))
		again := w.waits(l, "orders")
		require.Len(t, elsewhere.commands("SET orders"), sets)
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, again.granted(t).Release(t.Context()))

		time.Sleep(time.Second) // forgotten: it may ask all nodes at once again
		w.hold(other, "orders", time.Minute)
		sets = len(elsewhere.commands("SET orders"))
		w.waits(l, "orders")
		require.Len(t, elsewhere.commands("SET orders"), sets+1)
	})
}

// forbidding is a server whose user lacks the right to commands that begin in a certain way.
func forbidding(command string) func(string) string {
	return func(s string) string {
		if strings.HasPrefix(s, command) {
			return "NOPERM this user has no permissions to run the command"
		}
		return ""
	}
}

func TestLockersThatDisagreeAboutTheGateWaitABackoffStep(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		a, b := w.open(), w.open()
		for i, n := range b.nodes { // as if b had other names for the nodes
			n.hash = hashOf(fmt.Sprintf("redis-%d.internal:6379", 10-i))
		}
		key := ""
		for i := 0; key == "" || a.gate(key, a.clock()) == b.gate(key, b.clock()); i++ {
			key = fmt.Sprint("orders", i)
		}
		k := w.hold(a, key, time.Minute)
		for range 10 {
			next := w.waits(b, key)
			released := time.Now()
			require.NoError(t, k.Release(t.Context()))
			k = next.granted(t)
			require.LessOrEqual(t, next.at.Sub(released), backoffStep)
			a, b = b, a
		}
	})
}

func TestAMinorityGateThatHangsHoldsUpTheLocalQueueForANodeTimeoutOnce(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k, err := l.Acquire(t.Context(), "orders", time.Minute)
		require.NoError(t, err)
		w.gateOf(l, "orders").hang()
		for _, most := range []time.Duration{200 * time.Millisecond, 0, 0} {
			next := w.waits(l, "orders")
			released := time.Now()
			require.NoError(t, k.Release(t.Context()))
			require.Less(t, time.Since(released), handover, "the release itself does not wait for the gate")
			k = next.granted(t)
			require.Less(t, next.at.Sub(released), most+handover)
		}
		require.NoError(t, k.Release(t.Context()))
	})
}

func TestAnAttemptThroughASlowGateHasANodeTimeoutForTheOthersToo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.open(), w.open()
		w.all(func(f *fakeNode) { f.slow(150 * time.Millisecond) }) // two of them are more than the node timeout
		time.Sleep(time.Second)
		k := w.hold(a, "orders", 10*time.Second)
		next := w.waits(b, "orders")
		time.Sleep(time.Second)
		require.NoError(t, k.Release(t.Context()))
		k = next.granted(t)
		require.LessOrEqual(t, k.Validity(), 10*time.Second-300*time.Millisecond-102*time.Millisecond, "counted from before the gate was asked")
		require.Equal(t, 2, len(b.nodes)-1)
	})
}

func TestOptionsApplyToLocksThatWereWaitedFor(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Minute)
		next := w.waits(w.open(), "orders", AutoRenew(), MaxHold(25*time.Second), Owner("me"))
		require.NoError(t, k.Release(t.Context()))
		k = next.granted(t)
		require.True(t, strings.HasPrefix(k.Token(), "me/"))
		require.Equal(t, 3, w.count("orders", k.Token()))
		time.Sleep(20 * time.Second)
		require.NoError(t, k.Err(), "renewed")
		<-k.Done()
		require.ErrorContains(t, k.Err(), "MaxHold")
		require.InDelta(t, 25, time.Since(next.at).Seconds(), 0.5)
	})
}

func TestNewcomersWhoShareTheVotesSoonAgree(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		for i, f := range w.nodes {
			f.slow(time.Duration(1+i) * 100 * time.Microsecond)
		}
		var lockers []*Locker
		for range 6 {
			lockers = append(lockers, w.open())
		}
		for range 20 {
			begin := time.Now()
			var group sync.WaitGroup
			for _, l := range lockers {
				group.Go(func() {
					k, err := l.Acquire(t.Context(), "orders", time.Minute, Wait(0))
					require.NoError(t, err)
					require.NoError(t, k.Release(t.Context()))
				})
			}
			group.Wait()
			require.Less(t, time.Since(begin), 6*20*time.Millisecond)
			time.Sleep(time.Second)
			w.keyless("orders")
		}
	})
}

func TestAWaiterWhomTheGateFavoursIsWokenAllTheSame(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, l := w.open(), w.open()
		gate := w.gateOf(l, "orders")
		k := w.hold(holder, "orders", time.Minute)
		gate.miniredis().Del("orders") // it lost the key; the others hold it
		next := w.acquires(t.Context(), l, "orders", time.Minute, Wait(0))
		time.Sleep(10 * time.Second)
		require.False(t, next.over())
		attempts := l.Stats().Attempts
		time.Sleep(10 * time.Second)
		require.Less(t, l.Stats().Attempts-attempts, uint64(80), "it does not ask ever faster")
		require.Equal(t, 1, gate.listed("orders"))
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		next.granted(t)
		require.Less(t, next.at.Sub(released), 2*handover)
	})
}

func TestCloseEndsTheWaitingAndLeavesTheLists(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.hold(w.open(), "orders", time.Minute)
		l := w.open()
		head, behind := w.waits(l, "orders"), w.waits(l, "orders")
		begin := time.Now()
		require.NoError(t, l.Close())
		require.Less(t, time.Since(begin), 10*time.Millisecond)
		for _, a := range []*acquiring{head, behind} {
			<-a.done
			require.ErrorIs(t, a.err, ErrClosed)
			require.ErrorIs(t, a.err, ErrHeld)
		}
		w.unlisted("orders")
		_, err := l.Acquire(t.Context(), "orders", time.Minute)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestOneSubscriptionForALockerAndNodeWhileSomebodyWaits(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, l := w.open(), w.open()
		subscriptions := func() (n int) {
			for _, f := range w.nodes {
				n += f.miniredis().PubSubNumSub(l.lines.channel)[l.lines.channel]
			}
			return n
		}
		var held []*Lock
		var waiting []*acquiring
		gates := make(map[int]bool)
		for i := range 30 {
			key := fmt.Sprint("orders", i)
			held = append(held, w.hold(holder, key, time.Hour))
			waiting = append(waiting, w.waits(l, key))
			gates[l.gate(key, l.clock())] = true
		}
		require.Len(t, gates, 3)
		require.Equal(t, 3, subscriptions())
		for i, k := range held {
			require.NoError(t, k.Release(t.Context()))
			waiting[i].granted(t)
		}
		require.Equal(t, 3, subscriptions(), "kept for a while")
		time.Sleep(2*listenPeriod + time.Millisecond)
		require.Zero(t, subscriptions())
		require.NoError(t, held[0].locker.Close())
	})
}

func TestADeadSubscriptionIsFoundAndMadeAnew(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, l := w.open(), w.open()
		gate := w.gateOf(l, "orders")
		k := w.hold(holder, "orders", time.Hour)
		next := w.waits(l, "orders")
		dials := gate.dialled()
		gate.cut()
		time.Sleep(time.Second)
		require.Less(t, gate.dialled()-dials, 8)
		require.True(t, l.listeners[l.gate("orders", l.clock())].isHearing())
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		next.granted(t)
		require.Less(t, next.at.Sub(released), handover)
	})
}

func TestWaitingIsSeen(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var waits []WaitInfo
		var waited []WaitedInfo
		l := w.open(WithTrace(&Trace{
			Waiting: func(i WaitInfo) { mu.Lock(); defer mu.Unlock(); waits = append(waits, i) },
			Waited:  func(i WaitedInfo) { mu.Lock(); defer mu.Unlock(); waited = append(waited, i) },
		}))
		k := w.hold(w.open(), "orders", time.Minute)
		first := w.waits(l, "orders")
		second := w.acquires(t.Context(), l, "orders", time.Minute, Wait(300*time.Millisecond))
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 2, l.Stats().Waiting)
		<-second.done
		require.Equal(t, 1, l.Stats().Waiting)
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, first.granted(t).Release(t.Context()))
		_, err := l.Acquire(t.Context(), "other", time.Minute)
		require.NoError(t, err)

		s := l.Stats()
		require.Zero(t, s.Waiting)
		require.Equal(t, []uint64{2, 1}, []uint64{s.Acquired, s.Waited})
		require.Equal(t, s.Attempts, s.Acquired+s.Held+s.NoQuorum)
		require.GreaterOrEqual(t, s.Attempts, uint64(4))
		require.GreaterOrEqual(t, s.WaitTime, 310*time.Millisecond)
		require.Equal(t, w.gateOf(l, "orders").addr, waits[0].Gate)
		require.Contains(t, waits, WaitInfo{Key: "orders"}, "the one in the local queue")
		require.Len(t, waited, 2, "an acquire that does not wait is not told")
		require.ErrorIs(t, waited[0].Err, ErrHeld)
		require.Equal(t, 300*time.Millisecond, waited[0].Elapsed)
		require.NoError(t, waited[1].Err)
		require.GreaterOrEqual(t, waited[1].Attempts, 3)
	})
}
