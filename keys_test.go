package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (w *world) holdAll(l *Locker, keys []string, ttl time.Duration, opts ...AcquireOption) *Lock {
	w.t.Helper()
	k, err := l.TryAcquireAll(w.t.Context(), keys, ttl, opts...)
	require.NoError(w.t, err)
	return k
}

func TestSeveralKeysAreOneLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithKeyPrefix("lock:"))
		keys := []string{"b", "a", "c"}
		k := w.holdAll(l, keys, 10*time.Second)
		require.Equal(t, "b", k.Key())
		require.Equal(t, keys, k.Keys())
		require.Equal(t, 1, l.Stats().Holding)
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, k.Nodes())
		for _, key := range keys {
			require.Equal(t, 3, w.count("lock:"+key, k.Token()))
			_, err := l.TryAcquire(t.Context(), key, 10*time.Second)
			require.ErrorIs(t, err, ErrHeld)
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		for _, key := range keys {
			require.InDelta(t, 10*time.Second, w.nodes[0].ttl("lock:"+key), float64(time.Millisecond))
		}
		require.NoError(t, k.Release(t.Context()))
		require.ErrorContains(t, k.Err(), `"b", "a", "c": lock released`)
		for _, key := range keys {
			w.keyless("lock:" + key)
		}
	})
}

func TestAllKeysAreTakenOnANodeOrNone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		other := w.hold(l, "b", time.Minute)
		_, err := l.TryAcquireAll(t.Context(), []string{"a", "b", "c"}, time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, `"a", "b", "c"`)
		w.keyless("a")
		w.keyless("c")
		require.Equal(t, 3, w.count("b", other.Token()))
		for _, f := range w.nodes {
			require.Empty(t, f.commands("SET a"), "not even for a moment")
		}
	})
}

func TestAKeyLostOnANodeLosesThatNodeForAllAndIsHealed(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.holdAll(w.open(), []string{"a", "b"}, 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[1].miniredis().Del("b")
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, w.count("b", k.Token()))
		w.nodes[0].miniredis().Del("a")
		w.nodes[1].miniredis().Del("b")
		require.ErrorIs(t, k.Renew(t.Context(), 10*time.Second), ErrLost)
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		w.keyless("a")
		w.keyless("b")
	})
}

func TestAnotherHolderOfOneOfTheKeysIsNeverTouched(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.holdAll(l, []string{"a", "b"}, 10*time.Second)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.NoError(t, f.miniredis().Set("b", "theirs"))
			f.miniredis().SetTTL("b", time.Minute)
		}
		require.ErrorIs(t, k.Renew(t.Context(), 20*time.Second), ErrLost)
		require.LessOrEqual(t, w.nodes[0].ttl("a"), 10*time.Second, "none of the keys is renewed")
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		require.Equal(t, 3, w.count("b", "theirs"))
		w.keyless("a")
	})
}

func TestBadListsOfKeysAreNamedAndNothingIsSent(t *testing.T) {
	l := deafLocker(t)
	for want, keys := range map[string][]string{
		"keys: none given": {}, "key is empty": {""}, "keys[1]: is empty": {"a", ""}, `keys[0] and keys[2]: both are "a"`: {"a", "b", "a"},
	} {
		_, err := l.TryAcquireAll(t.Context(), keys, time.Second)
		requireNames(t, err, want)
		_, err = l.AcquireAll(t.Context(), keys, time.Second)
		requireNames(t, err, want)
	}
}

func TestDebtsOfSeveralKeysArePaid(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.holdAll(w.open(), []string{"a", "b"}, time.Minute)
		time.Sleep(time.Millisecond)
		w.nodes[2].vetoing(forbidding("EVALSHA " + releaseScript.SHA))
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Millisecond)
		require.Equal(t, k.Token(), w.nodes[2].value("b"))
		w.nodes[2].vetoing(nil)
		time.Sleep(3 * time.Second)
		w.keyless("a")
		w.keyless("b")
	})
}

func TestSeveralKeysInOppositeOrdersNeverDeadlock(t *testing.T) {
	for _, lockers := range []int{1, 2} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			ls := []*Locker{w.open()}
			ls = append(ls, ls[0])
			if lockers == 2 {
				ls[1] = w.open()
			}
			var group sync.WaitGroup
			begin := time.Now()
			for i, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"b"}, {"c", "a"}} {
				group.Go(func() {
					for range 20 {
						k, err := ls[i%2].AcquireAll(t.Context(), keys, time.Minute, Wait(0))
						require.NoError(t, err)
						time.Sleep(time.Millisecond)
						require.NoError(t, k.Release(t.Context()))
					}
				})
			}
			group.Wait()
			t.Logf("80 grants in %v", time.Since(begin))
			require.Less(t, time.Since(begin), 5*time.Second)
			time.Sleep(time.Second)
			w.unlisted("a")
			w.unlisted("b")
		})
	}
}

func TestWhoeverFreesTheLastOfSeveralKeysWakesWhoWaitsForAll(t *testing.T) {
	for _, last := range []string{"a", "b"} {
		inWorld(t, 5, func(t *testing.T, w *world) {
			l := w.open()
			held := map[string]*Lock{"a": w.hold(w.open(), "a", time.Minute), "b": w.hold(w.open(), "b", time.Minute)}
			next := &acquiring{done: make(chan struct{})}
			go func() {
				defer close(next.done)
				next.lock, next.err = l.AcquireAll(t.Context(), []string{"b", "a"}, time.Minute, Wait(0))
				next.at = time.Now()
			}()
			time.Sleep(time.Second)
			for key, k := range held {
				if key != last {
					require.NoError(t, k.Release(t.Context()))
				}
			}
			time.Sleep(time.Second)
			require.False(t, next.over())
			released := time.Now()
			require.NoError(t, held[last].Release(t.Context()))
			next.granted(t)
			require.Less(t, next.at.Sub(released), 2*handover)
		})
	}
}

func TestTheReleaseOfSeveralKeysWakesWhoWaitsForOne(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		for range 5 {
			l := w.open()
			k := w.holdAll(l, []string{"a", "b"}, time.Minute)
			for i := range 2 { // the second lock has places in lines, the first has not
				single := w.waits(w.open(), "b")
				released := time.Now()
				require.NoError(t, k.Release(t.Context()))
				one := single.granted(t)
				require.Less(t, single.at.Sub(released), handover)
				require.NoError(t, one.Release(t.Context()))
				if i == 0 {
					var err error
					k, err = l.AcquireAll(t.Context(), []string{"a", "b"}, time.Minute)
					require.NoError(t, err)
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
		w.unlisted("a")
		w.unlisted("b")
	})
}

func TestCancelledAcquiresOfSeveralKeysLeaveNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for i := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*11*time.Microsecond, cancel)
			if k, err := l.AcquireAll(ctx, []string{"a", "b"}, time.Minute); err == nil {
				require.NoError(t, k.Release(ctx))
			}
		}
		time.Sleep(time.Second)
		for _, key := range []string{"a", "b"} {
			w.keyless(key)
			w.unlisted(key)
		}
		w.holdAll(l, []string{"a", "b"}, time.Minute)
	})
}

func TestRandomPairsOfKeysAreHeldByOneAtATime(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		lockers := []*Locker{w.open(), w.open(), w.open()}
		held := make(map[string]bool)
		var mu sync.Mutex
		mark := func(keys []string, is bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				require.NotEqual(t, is, held[key], "%v", keys)
				held[key] = is
			}
		}
		var group sync.WaitGroup
		for i := range 30 {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			group.Go(func() {
				for range 10 {
					keys := []string{fmt.Sprint("key", rng.IntN(5)), fmt.Sprint("key", 5+rng.IntN(5))}
					rng.Shuffle(2, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
					k, err := lockers[i%3].AcquireAll(t.Context(), keys, time.Minute, Wait(0))
					require.NoError(t, err)
					mark(keys, true)
					time.Sleep(time.Millisecond)
					mark(keys, false)
					require.NoError(t, k.Release(t.Context()))
				}
			})
		}
		group.Wait()
	})
}
