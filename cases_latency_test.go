package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What makes calls slow, or servers busy with new connections.

func TestTheSlowestNodesSetNoLatencyOfAnyCall(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(10*(i+1)) * time.Millisecond) // 10, 20 … 50 ms
		}
		take := func(name string, call func() error) {
			time.Sleep(time.Second)
			begin := time.Now()
			require.NoError(t, call(), name)
			require.InDelta(t, 30*time.Millisecond, time.Since(begin), float64(time.Millisecond), name)
		}
		take("TryAcquire", func() error { _, err := l.TryAcquire(t.Context(), "a", 10*time.Second); return err })
		take("Acquire", func() error { _, err := l.Acquire(t.Context(), "b", 10*time.Second); return err })
		k := w.hold(l, "c", 10*time.Second)
		take("Renew", func() error { return k.Renew(t.Context(), 10*time.Second) })
		take("Release", func() error { return k.Release(t.Context()) })
	})
}

func TestCallsToANodeThatHangsPileNothingUp(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := open(w)
				require.NoError(t, w.hold(l, "first", time.Minute).Release(t.Context()))
				w.nodes[2].hang()
				synctest.Wait()
				before := runtime.NumGoroutine()
				for i := range 200 {
					require.NoError(t, w.hold(l, fmt.Sprint("k", i%7), time.Minute).Release(t.Context()))
					time.Sleep(15 * time.Millisecond)
				}
				synctest.Wait()
				s := l.Stats().Nodes[2]
				more := runtime.NumGoroutine() - before
				t.Logf("%d goroutines more, %d calls queued, %d releases owed, %d dials", more, s.Queued, s.Debts, w.nodes[2].dialled())
				// Each connection to a fake node takes a few goroutines of its own.
				require.Less(t, more, 10*w.nodes[2].dialled())
				require.Less(t, w.nodes[2].dialled(), 20, "in three seconds")
				require.Less(t, s.Queued, 50)
				require.Less(t, s.Debts, 50)
			})
		})
	}
}

// A node that answers, but later than the node timeout, costs a connection with each batch.
func TestDialsOfANodeSlowerThanTheNodeTimeoutAreBounded(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithNodeTimeout(20 * time.Millisecond))
		w.nodes[1].slow(30 * time.Millisecond)
		dials := w.nodes[1].dialled()
		for i := range 400 {
			require.NoError(t, w.hold(l, fmt.Sprint("k", i%7), 10*time.Second).Release(t.Context()))
			time.Sleep(25 * time.Millisecond)
		}
		dials = w.nodes[1].dialled() - dials
		t.Logf("%.1f dials a second", float64(dials)/10)
		require.Less(t, dials, 30, "in ten seconds")
	})
}

func TestDialsOfAFlappingNodeAreBounded(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := open(w)
				f := w.nodes[1]
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					for ctx.Err() == nil { // down and up again every fraction of a second
						time.Sleep(time.Duration(10+rand.IntN(200)) * time.Millisecond)
						f.mu.Lock()
						f.refuses = errors.New("connection refused")
						f.mu.Unlock()
						f.cut()
						time.Sleep(time.Duration(10+rand.IntN(200)) * time.Millisecond)
						f.mu.Lock()
						f.refuses = nil
						f.mu.Unlock()
					}
				})
				dials := f.dialled()
				for i := 0; ctx.Err() == nil; i++ {
					require.NoError(t, w.hold(l, fmt.Sprint("k", i%7), 10*time.Second).Release(t.Context()))
					time.Sleep(25 * time.Millisecond)
				}
				wg.Wait()
				dials = f.dialled() - dials
				t.Logf("%.1f dials a second", float64(dials)/10)
				require.Less(t, dials, 150, "in ten seconds")
				time.Sleep(4 * time.Second)
				require.True(t, l.Stats().Nodes[1].Up, "and used again once it is steady")
			})
		})
	}
}
