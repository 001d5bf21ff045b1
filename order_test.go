package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyAt returns a key whose gate is the given node.
func keyAt(l *Locker, gate int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key", i); l.gate(key, l.clock()) == gate {
			return key
		}
	}
}

// contest makes callers of each locker take a key again and again for so long; it returns the grants of each, and
// the longest time that one waited.
func contest(t *testing.T, lockers []*Locker, callers int, keys []string, hold, long time.Duration) (grants []int, longest time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	grants = make([]int, len(lockers))
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, l := range lockers {
		for range callers {
			group.Go(func() {
				for ctx.Err() == nil {
					begin := time.Now()
					k, err := l.AcquireAll(ctx, keys, 10*time.Second)
					if err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						return
					}
					mu.Lock()
					grants[i]++
					longest = max(longest, time.Since(begin))
					mu.Unlock()
					time.Sleep(hold)
					require.NoError(t, k.Release(ctx))
				}
			})
		}
	}
	group.Wait()
	return grants, longest
}

func TestTheOrderOfArrivalHoldsWhereTheGateIsFarAway(t *testing.T) {
	const hold = 50 * time.Millisecond
	for _, away := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond} {
		for _, callers := range []int{1, 3} {
			for _, keys := range []int{1, 2} {
				t.Run(fmt.Sprintf("gate %v away, %d callers, %d keys", away, callers, keys), func(t *testing.T) {
					inWorld(t, 3, func(t *testing.T, w *world) {
						lockers := []*Locker{w.open(), w.open()}
						names := []string{keyAt(lockers[0], 1), keyAt(lockers[0], 0)}[:keys]
						if away > 0 {
							w.nodes[1].slow(away)
						}
						time.Sleep(time.Second)
						grants, longest := contest(t, lockers, callers, names, hold, 15*time.Second)
						t.Logf("grants %v, longest wait %v", grants, longest)
						require.InDelta(t, grants[0], grants[1], float64(grants[0]+grants[1])/5)
						if keys == 1 { // several have as many lists, and one may wait in either
							require.Less(t, longest, time.Duration(callers)*4*(hold+3*away)+handover)
						}
					})
				})
			}
		}
	}
}
