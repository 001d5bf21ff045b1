package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

// acquiresAll is acquires for several keys, without a limit.
func (w *world) acquiresAll(ctx context.Context, l *Locker, keys ...string) *acquiring {
	a := &acquiring{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lock, a.err = l.AcquireAll(ctx, keys, time.Minute, Wait(0))
		a.at = time.Now()
	}()
	return a
}

// quiet asserts that a locker remembers no caller, and that no node has a list of the keys.
func (w *world) quiet(l *Locker, keys ...string) {
	w.t.Helper()
	time.Sleep(time.Second) // crowded lines are forgotten by then
	for _, key := range keys {
		w.unlisted(key)
	}
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	require.Empty(w.t, l.lines.byKey)
}

func TestAWaiterForSeveralKeysKeepsNobodyFromThoseThatAreFree(t *testing.T) {
	for name, c := range map[string]struct {
		hold func(w *world, l, other *Locker)
		keys []string
	}{
		"another locker holds one":     {func(w *world, _, other *Locker) { w.hold(other, "b", time.Hour) }, []string{"a", "b"}},
		"its own locker holds one":     {func(w *world, l, _ *Locker) { w.hold(l, "b", time.Hour) }, []string{"a", "b"}},
		"… and waits for it in a line": {func(w *world, l, _ *Locker) { w.acquires(w.t.Context(), l, "b", time.Hour) }, []string{"a", "b"}},
		"the last of three is held":    {func(w *world, _, other *Locker) { w.hold(other, "c", time.Hour) }, []string{"c", "b", "a"}},
		"a stranger holds one": {func(w *world, _, _ *Locker) {
			w.all(func(f *fakeNode) { require.NoError(w.t, f.miniredis().Set("b", "theirs")) })
		}, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l, other := w.open(), w.open()
				c.hold(w, l, other)
				time.Sleep(10 * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				var waiting []*acquiring
				for range 3 {
					waiting = append(waiting, w.acquiresAll(ctx, l, c.keys...))
					time.Sleep(300 * time.Millisecond)
				}
				for i := range 50 { // at any moment of their back-off
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
					begin := time.Now()
					k, err := l.Acquire(t.Context(), "a", time.Minute, Wait(time.Second))
					require.NoError(t, err)
					require.Less(t, time.Since(begin), 2*handover)
					time.Sleep(time.Millisecond)
					require.NoError(t, k.Release(t.Context()))
				}
				cancel()
				for _, a := range waiting {
					<-a.done
					require.ErrorIs(t, a.err, context.Canceled)
					require.ErrorIs(t, a.err, ErrHeld)
				}
			})
		})
	}
}

func TestNoNodeIsAskedForSeveralKeysWhileOneOfThemIsHeldInTheProcess(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k, err := l.Acquire(t.Context(), "b", time.Minute)
		require.NoError(t, err)
		_, err = l.AcquireAll(t.Context(), []string{"a", "b"}, time.Minute)
		require.EqualError(t, err, `redlock: acquire "a", "b": the key is held or awaited by this process: no node was asked`)
		require.Equal(t, uint64(1), l.Stats().Attempts)
		next := w.acquiresAll(t.Context(), l, "a", "b")
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		k = next.granted(t)
		require.Less(t, next.at.Sub(released), handover)

		waiting := []*acquiring{w.waits(l, "b"), w.waits(l, "a")} // the lock keeps the places of both its keys
		require.NoError(t, k.Release(t.Context()))
		for _, a := range waiting {
			require.NoError(t, a.granted(t).Release(t.Context()))
		}
		w.quiet(l, "a", "b")
	})
}

func TestOneOfSeveralKeysThatWasTakenMeanwhileIsTheOneToWaitFor(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l, other := w.open(patient), w.open()
		held := w.hold(other, "b", time.Minute)
		next := w.acquiresAll(t.Context(), l, "a", "b")
		time.Sleep(time.Second)
		require.Equal(t, 1, w.gateOf(l, "b").listed("b"))
		k, err := l.Acquire(t.Context(), "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, held.Release(t.Context())) // wakes it, and a is taken by then
		time.Sleep(10 * time.Millisecond)
		require.False(t, next.over())
		w.unlisted("b")
		require.NoError(t, w.waitsNot(l, "b").Release(t.Context()))
		attempts := l.Stats().Attempts
		time.Sleep(time.Hour / 100)
		require.Equal(t, attempts, l.Stats().Attempts, "it waits for its own process and asks no node")
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, next.granted(t).Release(t.Context()))
		require.Less(t, next.at.Sub(released), handover)
		w.quiet(l, "a", "b")
	})
}

// waitsNot acquires a key that is free.
func (w *world) waitsNot(l *Locker, key string) *Lock {
	w.t.Helper()
	begin := time.Now()
	k, err := l.Acquire(w.t.Context(), key, time.Minute)
	require.NoError(w.t, err)
	require.Less(w.t, time.Since(begin), 2*handover)
	return k
}

func TestManyCallersWithOverlappingKeysAllGetTheirTurn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		lockers := []*Locker{w.open(), w.open()}
		names := []string{"a", "b", "c", "d", "e"}
		var mu sync.Mutex
		held := make(map[string]bool)
		mark := func(keys []string, is bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				require.NotEqual(t, is, held[key], "%v", keys)
				held[key] = is
			}
		}
		begin := time.Now()
		var group sync.WaitGroup
		for i := range 40 {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			group.Go(func() {
				for range 10 {
					keys := slices.Clone(names)
					rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
					keys = keys[:1+rng.IntN(len(keys))]
					k, err := lockers[i%2].AcquireAll(t.Context(), keys, time.Minute, Wait(0))
					require.NoError(t, err)
					mark(keys, true)
					time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
					mark(keys, false)
					require.NoError(t, k.Release(t.Context()))
				}
			})
		}
		group.Wait()
		attempts := lockers[0].Stats().Attempts + lockers[1].Stats().Attempts
		t.Logf("400 grants in %v by %d attempts", time.Since(begin), attempts)
		require.Less(t, time.Since(begin), 10*time.Second)
		require.Less(t, attempts, uint64(400*10))
		for _, l := range lockers {
			w.quiet(l, names...)
		}
	})
}

func TestOppositeOrdersInOneProcessCostOneAttemptForEachGrant(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		var group sync.WaitGroup
		begin := time.Now()
		for _, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "b", "a"}, {"a", "c"}, {"c", "a"}} {
			group.Go(func() {
				for range 20 {
					k, err := l.AcquireAll(t.Context(), keys, time.Minute, Wait(0))
					require.NoError(t, err)
					time.Sleep(time.Millisecond)
					require.NoError(t, k.Release(t.Context()))
				}
			})
		}
		group.Wait()
		require.Equal(t, uint64(120), l.Stats().Attempts, "the callers do not chase each other from line to line")
		require.Less(t, time.Since(begin), 120*5*time.Millisecond)
		w.quiet(l, "a", "b", "c")
	})
}

func TestCancelledWaitersForSeveralKeysLeaveNothingInAnyLine(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l, other := w.open(), w.open()
		for i := range 40 {
			time.Sleep(10 * time.Millisecond) // the last undo is through
			foreign := w.hold(other, "c", time.Hour)
			own := w.hold(other, "b", time.Hour)
			var group sync.WaitGroup
			for j, keys := range [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "b", "c"}, {"b"}} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*5*j)*200*time.Microsecond)
				defer cancel()
				group.Go(func() {
					if k, err := l.AcquireAll(ctx, keys, time.Minute); err == nil {
						require.NoError(t, k.Release(ctx))
					}
				})
			}
			time.Sleep(time.Duration(i) * 300 * time.Microsecond)
			require.NoError(t, own.Release(t.Context()))
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			require.NoError(t, foreign.Release(t.Context()))
			group.Wait()
		}
		w.quiet(l, "a", "b", "c")
		for _, key := range []string{"a", "b", "c"} {
			w.keyless(key)
		}
	})
}

// crew is callers of one locker that come, sleep at a gate, get locks and go, in any order.
type crew struct {
	lines   *lines
	callers []*waiter
	all     []*waiter
}

func (c *crew) check(t require.TestingT) {
	owner := make(map[*line]*waiter)
	for _, w := range c.all {
		if w.queued {
			require.Empty(t, w.places, "in a queue with a place in another line")
			require.True(t, w.list.taken, "in the queue of a free line")
			require.Contains(t, w.list.queue, w)
			require.Contains(t, w.stored, w.list.key)
			continue
		}
		select {
		case <-w.turn:
			require.Len(t, w.places, len(w.stored), "seated halfway")
		default:
		}
		require.Contains(t, []int{0, 1, len(w.stored)}, len(w.places))
		for _, ln := range w.places {
			require.True(t, ln.taken)
			require.Nil(t, owner[ln], "two callers at the head of %s", ln.key)
			owner[ln] = w
		}
	}
	for key, ln := range c.lines.byKey {
		require.NotNil(t, owner[ln], "the line of %s is forgotten with its last user", key)
		require.True(t, slices.IsSortedFunc(ln.queue, func(a, b *waiter) int { return int(a.arrival) - int(b.arrival) }))
	}
}

func TestCallersHaveAllTheirPlacesOrWaitWithOneAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Locker{panel: panel{clock: clock.Now}}
		c := &crew{lines: &lines{locker: l, byKey: make(map[string]*line)}}
		pick := func(is func(*waiter) bool) *waiter {
			some := slices.DeleteFunc(slices.Clone(c.callers), func(w *waiter) bool { return !is(w) })
			if len(some) == 0 {
				t.Skip("nobody")
			}
			return rapid.SampledFrom(some).Draw(t, "caller")
		}
		hasAll := func(w *waiter) bool { return !w.queued && len(w.places) == len(w.stored) }
		t.Repeat(map[string]func(*rapid.T){
			"comes": func(t *rapid.T) {
				keys := rapid.SliceOfNDistinct(rapid.SampledFrom(strings.Split("abcde", "")), 1, 4, rapid.ID).Draw(t, "keys")
				w := &waiter{stored: l.stored(keys), turn: make(chan struct{}, 1)}
				c.callers, c.all = append(c.callers, w), append(c.all, w)
				seated := c.lines.seat(w)
				require.Equal(t, seated, !w.queued)
			},
			"sleeps": func(t *rapid.T) {
				w := pick(hasAll)
				w.list = rapid.SampledFrom(w.places).Draw(t, "blocked")
				c.lines.keep(w)
			},
			"wakes": func(t *rapid.T) {
				w := pick(func(w *waiter) bool { return !w.queued })
				c.lines.seat(w)
			},
			"goes": func(t *rapid.T) {
				w := pick(func(*waiter) bool { return true })
				c.lines.quit(w)
				c.callers = slices.DeleteFunc(c.callers, func(v *waiter) bool { return v == w })
				c.all = slices.Clone(c.callers)
			},
			"": func(t *rapid.T) { c.check(t) },
		})
		for served := 0; len(c.callers) > 0; served++ { // each attempt or sleep ends, and all get their turn
			i := slices.IndexFunc(c.callers, func(w *waiter) bool { return !w.queued })
			require.GreaterOrEqual(t, i, 0, "everybody waits for somebody")
			w := c.callers[i]
			if c.lines.seat(w) {
				c.lines.quit(w)
				c.callers = slices.Delete(c.callers, i, i+1)
			}
			c.all = slices.Clone(c.callers)
			c.check(t)
			require.Less(t, served, 10_000, "the callers chase each other")
		}
		require.Empty(t, c.lines.byKey)
	})
}

// A line is forgotten while a timer still looks after it. The next line of the key must stay known, or its
// callers and later ones would have a place each.
func TestALineThatWasForgottenDoesNotTakeTheNextOneWithIt(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		s := &w.open().lines
		first := &line{lines: s, key: "orders", gate: noGate, crowded: s.locker.clock()}
		next := &line{lines: s, key: "orders", gate: noGate, taken: true}
		s.mu.Lock()
		s.byKey["orders"] = first
		s.drop(first) // crowded: a timer will look again
		first.crowded = clock.Instant{}
		s.drop(first)
		s.byKey["orders"] = next
		s.mu.Unlock()
		time.Sleep(2 * s.memory)
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Same(t, next, s.byKey["orders"])
	})
}
