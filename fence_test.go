package redlock

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// number returns what a node stores as the fence of key, 0 for nothing.
func (f *fakeNode) number(key string) int64 {
	n, _ := strconv.ParseInt(f.value(fenceName(key)), 10, 64)
	return n
}

func (f *fakeNode) setNumber(t *testing.T, key string, n int64) {
	t.Helper()
	require.NoError(t, f.miniredis().Set(fenceName(key), strconv.FormatInt(n, 10)))
}

// ahead returns the time of day d from now, as a fence.
func ahead(d time.Duration) int64 { return time.Now().Add(d).UnixMicro() }

func TestFencesGrowFromGrantToGrant(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		lockers := []*Locker{w.open(WithFencing()), w.open(WithFencing())}
		last := int64(0)
		for i := range 50 {
			k := w.hold(lockers[i%2], "orders", time.Minute)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			require.NoError(t, k.Release(t.Context()))
		}
		require.InDelta(t, ahead(0), last, 1e6, "a time of day in µs")
		require.InDelta(t, defaultFenceLife, w.nodes[0].ttl(fenceName("orders")), float64(time.Second))
		require.Zero(t, w.hold(w.open(), "other", time.Minute).Fence(), "without the option")
	})
}

func TestAFenceCostsOneRoundTripWhereTheNodesAgree(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		for range 10 {
			begin := time.Now()
			k := w.hold(l, "orders", time.Minute)
			require.Less(t, time.Since(begin), 250*time.Microsecond)
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(time.Millisecond)
		}
		require.Empty(t, w.nodes[0].commands(renewScript.sha))
	})
}

func TestNumbersThatDifferAreRaisedToOneOnAQuorum(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		high := ahead(time.Hour) // of a locker whose clock runs ahead; only one node that is heard knows it
		w.nodes[1].setNumber(t, "orders", high)
		k := w.hold(l, "orders", time.Minute)
		require.Equal(t, high+1, k.Fence())
		time.Sleep(time.Millisecond)
		stored := 0
		for _, f := range w.nodes {
			if f.number("orders") == high+1 {
				stored++
			}
		}
		require.GreaterOrEqual(t, stored, 3)
		require.NoError(t, k.Release(t.Context()))
		w.nodes[1].crash() // who alone knew it: the others go on from there
		require.Greater(t, w.hold(l, "orders", time.Minute).Fence(), high+1)
	})
}

func TestTheValidityOfARaisedFenceCountsFromTheFirstRound(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		w.all(func(f *fakeNode) { f.slow(50 * time.Millisecond) })
		w.nodes[0].setNumber(t, "orders", ahead(time.Hour))
		w.nodes[1].setNumber(t, "orders", ahead(2*time.Hour))
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second)
		require.Greater(t, time.Since(begin), 100*time.Millisecond, "two rounds")
		require.Equal(t, begin.Add(10*time.Second-102*time.Millisecond).Round(time.Millisecond), k.Until().Round(time.Millisecond))
	})
}

func TestAFenceThatCannotBeRaisedIsNoLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		for i, f := range w.nodes {
			f.setNumber(t, "orders", ahead(time.Duration(i+1)*time.Hour))
			f.vetoing(func(command string) string {
				if len(command) > 50 && command[:7] == "EVALSHA" && command[8:48] == renewScript.sha {
					return "ERR no"
				}
				return ""
			})
		}
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "acquire")
		time.Sleep(time.Second)
		w.keyless("orders")
		require.Zero(t, l.Stats().Holding)
	})
}

func TestCloseEndsAnAcquireThatWouldRaiseItsFence(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		for i, f := range w.nodes {
			f.setNumber(t, "orders", ahead(time.Duration(i+1)*time.Hour))
			f.slow(150 * time.Millisecond)
		}
		acquiring := underWay(func() error { _, err := l.TryAcquire(t.Context(), "orders", time.Minute); return err })
		time.Sleep(10 * time.Millisecond)
		closed := underWay(l.Close)
		err := <-acquiring
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, <-closed)
		w.keyless("orders")
	})
}

func TestFencesGrowWhileAMinorityForgets(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		fast, slow := w.open(WithFencing(), WithRestartGuard(GuardOff)), w.open(WithFencing(), WithRestartGuard(GuardOff))
		slow.today = func() time.Time { return time.Now().Add(-time.Second) }
		last := int64(0)
		for i := range 60 {
			l := fast
			if i%3 > 0 {
				l = slow
			}
			k, err := l.Acquire(t.Context(), "orders", time.Minute, Wait(10*time.Second))
			require.NoError(t, err)
			require.Greater(t, k.Fence(), last, "grant %d", i)
			last = k.Fence()
			time.Sleep(time.Millisecond) // all nodes have the number
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(time.Millisecond)
			for _, j := range []int{i % 5, (i + 2) % 5} {
				w.nodes[j].crash()
				w.nodes[j].restart()
			}
			time.Sleep(time.Second)
			k, err = fast.Acquire(t.Context(), "orders", time.Minute, Wait(10*time.Second)) // stores it on them again
			require.NoError(t, err)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			time.Sleep(time.Millisecond)
			require.NoError(t, k.Release(t.Context()))
		}
	})
}

func TestFencesGoOnFromTheTimeOfDayWhenAllIsForgotten(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing(), WithRestartGuard(GuardOff))
		k := w.hold(l, "orders", time.Minute)
		first := k.Fence()
		require.NoError(t, k.Release(t.Context()))
		w.all(func(f *fakeNode) { f.crash(); f.restart() })
		time.Sleep(time.Second)
		k, err := l.Acquire(t.Context(), "orders", time.Minute, Wait(10*time.Second))
		require.NoError(t, err)
		require.Greater(t, k.Fence(), first)
	})
}

func TestRenewalsRepairTheNumbersOfNodes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing(), WithRestartGuard(GuardOff))
		k := w.hold(l, "orders", time.Minute)
		time.Sleep(time.Millisecond)
		w.nodes[1].miniredis().Del(fenceName("orders"))
		w.nodes[2].crash()
		w.nodes[2].restart()
		time.Sleep(time.Second)
		_ = k.Renew(t.Context(), time.Minute)
		time.Sleep(3 * time.Second)
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.Equal(t, k.Fence(), f.number("orders"))
		}
	})
}

func TestSeveralKeysHaveOneFenceAboveAllOfTheirs(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		high := ahead(time.Hour)
		w.all(func(f *fakeNode) { f.setNumber(t, "b", high) })
		k := w.holdAll(l, []string{"a", "b"}, time.Minute)
		require.Equal(t, high+1, k.Fence())
		require.NoError(t, k.Release(t.Context()))
		require.Greater(t, w.hold(l, "a", time.Minute).Fence(), high+1)
		require.Greater(t, w.hold(l, "b", time.Minute).Fence(), high+1)
	})
}

func TestLocksThatWereWaitedForHaveFencesToo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(WithFencing()), "orders", time.Minute)
		last := k.Fence()
		for range 5 {
			next := w.waits(w.open(WithFencing()), "orders")
			require.NoError(t, k.Release(t.Context()))
			k = next.granted(t)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			time.Sleep(time.Millisecond)
			for _, f := range w.nodes {
				require.Equal(t, last, f.number("orders"), "the gate has it too")
				require.Empty(t, f.commands(renewScript.sha), "without another round")
			}
		}
	})
}

func TestAFenceGuardRefusesWhoeverIsOlderThanTheLast(t *testing.T) {
	var g FenceGuard
	for _, c := range []struct {
		key   string
		fence int64
		admit bool
	}{
		{"a", 0, false}, {"a", -1, false}, {"a", 5, true}, {"a", 5, true}, {"a", 4, false}, {"b", 1, true}, {"a", 9, true}, {"a", 5, false}, {"a", 9, true}, {"b", 1, true},
	} {
		require.Equal(t, c.admit, g.Admit(c.key, c.fence), "%v", c)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	admitted := make(map[string]int64)
	for i := range 20 {
		group.Go(func() {
			for f := range 200 {
				key := fmt.Sprint(f % 3)
				fence := int64(f*20 + i + 1)
				mu.Lock()
				if g.Admit("x"+key, fence) {
					if fence < admitted[key] {
						t.Errorf("%d after %d", fence, admitted[key])
					}
					admitted[key] = fence
				}
				mu.Unlock()
				g.Admit("y", fence)
			}
		})
	}
	group.Wait()
	require.False(t, g.Admit("y", 1))
}
