package redlock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inspected is an Inspect that must not fail.
func (w *world) inspected(l *Locker, key string) *State {
	w.t.Helper()
	s, err := l.Inspect(w.t.Context(), key)
	require.NoError(w.t, err)
	require.Len(w.t, s.Nodes, len(w.nodes))
	for i, f := range w.nodes {
		require.Equal(w.t, f.addr, s.Nodes[i].Node)
	}
	return s
}

// store puts a value on a node behind the library's back; without a ttl it has no expiry.
func (f *fakeNode) store(key, value string, ttl time.Duration) {
	f.t.Helper()
	require.NoError(f.t, f.miniredis().Set(key, value))
	if ttl > 0 {
		f.miniredis().SetTTL(key, ttl)
	}
}

func TestInspectShowsTheHolderAndWhatEachNodeHolds(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		inWorld(t, n, func(t *testing.T, w *world) {
			l := w.open()
			require.Equal(t, "orders", w.inspected(l, "orders").Key)
			require.Equal(t, &State{Key: "orders", Nodes: missing(w)}, w.inspected(l, "orders"), "nobody has it")

			begin := time.Now()
			k := w.hold(l, "orders", 10*time.Second, Owner("worker/7"))
			time.Sleep(time.Until(begin.Add(1500 * time.Millisecond))) // each node is asked so long after it was given the key
			want := &State{Key: "orders", Held: true, Token: k.Token(), Owner: "worker/7", TTL: 8500 * time.Millisecond}
			for _, f := range w.nodes {
				want.Nodes = append(want.Nodes, NodeState{Node: f.addr, Token: k.Token(), TTL: 8500 * time.Millisecond})
			}
			require.Equal(t, want, w.inspected(l, "orders"))

			time.Sleep(time.Until(begin.Add(9999 * time.Millisecond)))
			require.Equal(t, time.Millisecond, w.inspected(l, "orders").TTL)
			time.Sleep(time.Until(begin.Add(10 * time.Second)))
			require.Equal(t, &State{Key: "orders", Nodes: missing(w)}, w.inspected(l, "orders"), "it expired")
		})
	}
}

func missing(w *world) (nodes []NodeState) {
	for _, f := range w.nodes {
		nodes = append(nodes, NodeState{Node: f.addr})
	}
	return nodes
}

func TestInspectShowsValuesOfOthersAndNamesWhatIsNoLock(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].store("orders", "theirs", 30*time.Second)
		w.nodes[1].store("orders", "theirs", 0)
		w.nodes[2].store("orders", "theirs", 20*time.Second)
		_, err := w.nodes[3].miniredis().Lpush("orders", "x")
		require.NoError(t, err)
		w.nodes[3].miniredis().SetTTL("orders", time.Minute)
		s := w.inspected(l, "orders")
		require.True(t, s.Held)
		require.Equal(t, "theirs", s.Token)
		require.Empty(t, s.Owner)
		require.Equal(t, 20*time.Second-time.Millisecond, s.TTL, "the third largest; no expiry is the largest")
		require.Equal(t, NodeState{Node: w.nodes[1].addr, Token: "theirs", TTL: -1}, s.Nodes[1])
		require.EqualError(t, s.Nodes[3].Err, "holds a list, not a lock")
		require.Empty(t, s.Nodes[3].Token)
		require.Equal(t, time.Minute-time.Millisecond, s.Nodes[3].TTL, "whole milliseconds are left")
		require.Equal(t, NodeState{Node: w.nodes[4].addr}, s.Nodes[4])

		for i, f := range w.nodes {
			f.miniredis().Del("orders")
			f.miniredis().HSet("orders", "field", fmt.Sprint(i))
		}
		s = w.inspected(l, "orders")
		require.False(t, s.Held)
		for _, n := range s.Nodes {
			require.EqualError(t, n.Err, "holds a hash, not a lock")
			require.EqualValues(t, -1, n.TTL)
		}
	})
}

func TestInspectTellsTheNumberThatAQuorumHasReached(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		for i, fence := range []string{"7", "41", "40", "", "90"} {
			if i != 4 { // whose number is not that of the holder
				w.nodes[i].store("orders", "theirs", 30*time.Second)
			}
			if fence != "" {
				w.nodes[i].store("{orders}:redlock-fence", fence, 0)
			}
		}
		require.EqualValues(t, 7, w.inspected(l, "orders").Fence)

		w.nodes[0].store("{orders}:redlock-fence", "many", 0)
		s := w.inspected(l, "orders")
		require.EqualValues(t, 0, s.Fence)
		require.True(t, s.Held, "its token counts all the same")
		require.EqualError(t, s.Nodes[0].Err, `its fence "many" is not a number`)

		w.nodes[0].miniredis().Del("{orders}:redlock-fence")
		w.nodes[0].miniredis().HSet("{orders}:redlock-fence", "field", "7")
		s = w.inspected(l, "orders")
		require.EqualValues(t, 0, s.Fence)
		require.NoError(t, s.Nodes[0].Err)
		w.nodes[1].miniredis().Del("orders")
		require.Zero(t, w.inspected(l, "orders").Fence, "there is no holder")
	})
}

func TestInspectTellsTheFenceOfTheHolder(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		w.nodes[1].store("{orders}:redlock-fence", "9000000000000000", 0) // the others are raised to what follows
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		s := w.inspected(l, "orders")
		require.Equal(t, int64(9000000000000001), s.Fence)
		require.Equal(t, k.Fence(), s.Fence)
	})
}

func TestInspectLooksUnderThePrefixAndShowsTheCallersKey(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithKeyPrefix("app:"))
		for _, f := range w.nodes {
			f.store("orders", "another application's", time.Minute)
			f.store("{orders}:redlock-fence", "1", 0)
			f.store("{app:orders}:redlock-fence", "2", 0)
		}
		require.False(t, w.inspected(l, "orders").Held)
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		s := w.inspected(l, "orders")
		require.Equal(t, "orders", s.Key)
		require.Equal(t, k.Token(), s.Token)
		require.EqualValues(t, 2, s.Fence)
		w.all(func(f *fakeNode) { f.hang() })
		_, err := l.Inspect(t.Context(), "orders")
		require.ErrorContains(t, err, `redlock: inspect "orders": no quorum`)
	})
}

func TestInspectSendsNothingThatWrites(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "held", time.Hour)
		for _, f := range w.nodes {
			_, err := f.miniredis().Lpush("list", "x")
			require.NoError(t, err)
			f.store("foreign", "theirs", 0)
			f.store("{foreign}:redlock-fence", "7", 0)
		}
		time.Sleep(time.Millisecond)
		before := make(map[string]string)
		for _, f := range w.nodes {
			before[f.addr] = f.miniredis().Dump()
			f.mu.Lock()
			f.seen = nil
			f.mu.Unlock()
		}
		for _, key := range []string{"held", "list", "foreign", "nobody's"} {
			w.inspected(l, key)
		}
		for _, f := range w.nodes {
			var names []string
			for _, command := range f.commands("") {
				name, _, _ := strings.Cut(command, " ")
				names = append(names, name)
			}
			slices.Sort(names)
			require.Equal(t, []string{"EVALSHA", "GET", "PTTL", "TYPE"}, slices.Compact(names))
			require.Equal(t, before[f.addr], f.miniredis().Dump())
		}
	})
}

func TestInspectIsAnsweredWhereTheScriptsVanished(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.all((*fakeNode).flushScripts)
		begin := time.Now()
		require.True(t, w.inspected(l, "orders").Held)
		require.Less(t, time.Since(begin), time.Millisecond)
	})
}

func TestInspectsShareRoundTripsWithEachOtherAndComeAfterWhatWasQueuedBefore(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(10+i) * time.Millisecond)
		}
		begin := time.Now()
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				key := fmt.Sprint("k", i)
				k := w.hold(l, key, 10*time.Second)
				require.Equal(t, k.Token(), w.inspected(l, key).Token, "on all nodes: the acquire was queued first")
				require.NoError(t, k.Release(t.Context()))
				require.False(t, w.inspected(l, key).Held)
			})
		}
		group.Wait()
		require.Less(t, time.Since(begin), 150*time.Millisecond, "a few round trips of 12 ms for 400 operations")
	})
}

func TestInspectTellsTheErrorOfANodeWithItsAdviceOnce(t *testing.T) {
	for _, refusedCommand := range []string{"EVALSHA", "GET"} { // the second within the script
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			w.hold(l, "orders", 10*time.Second)
			time.Sleep(time.Millisecond)
			w.nodes[1].vetoing(func(command string) string {
				if strings.HasPrefix(command, refusedCommand) {
					return "NOPERM this user has no permissions to run the command"
				}
				return ""
			})
			for range 2 { // it answers: its breaker stays closed
				n := w.inspected(l, "orders").Nodes[1]
				require.Empty(t, n.Token)
				require.ErrorContains(t, n.Err, "the node's user needs")
				require.Equal(t, 1, strings.Count(n.Err.Error(), "the node's user needs"))
			}
		})
	}
}
