package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

func plainClient(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTwoOfThreeNodesRestartedEmptyGrantNoHeldKey(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	servers := redistest.ForTest(t, 3)
	urls := redistest.URLs(servers)
	holder, other := openURLs(t, urls), openURLs(t, urls)
	unguarded := []*redlock.Locker{
		openURLs(t, urls, redlock.WithRestartGuard(redlock.GuardOff)),
		openURLs(t, urls, redlock.WithRestartGuard(redlock.GuardOff)),
	}
	time.Sleep(ttl + 1100*time.Millisecond) // no fresh deployment any more

	// Nodes tell their age as the difference of two whole seconds: one that starts late in a second
	// and is asked early in the next says that it is a second old.
	sleepUntilPast(700 * time.Millisecond)
	k, err := holder.TryAcquire(t.Context(), "orders", ttl)
	require.NoError(t, err)
	restartEmpty(t, servers[:2]...)
	restarted := time.Now()
	sleepUntilPast(100 * time.Millisecond)
	fresh := openURLs(t, urls)

	_, err = fresh.TryAcquire(t.Context(), "orders", ttl)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "and may have forgotten keys")
	lockers := map[string]*redlock.Locker{"the holder's": holder, "an old": other, "a new": fresh}
	again := make(map[string]time.Time) // when each was granted the key
	for len(again) < len(lockers) && time.Since(restarted) < 2*ttl+5*time.Second {
		for name, l := range lockers {
			g, err := l.TryAcquire(t.Context(), "orders", ttl)
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrNotAcquired)
				continue
			}
			if again[name].IsZero() {
				again[name] = time.Now()
			}
			require.NoError(t, g.Release(t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
	}
	for name := range lockers {
		require.Containsf(t, again, name, "votes never counted again for %s locker", name)
		at := again[name]
		t.Logf("%s locker granted %v after the restart, %v after the holder's until", name, at.Sub(restarted), at.Sub(k.Until()))
		require.Positivef(t, at.Sub(k.Until()), "%s locker was granted a key that is held", name)
		// Noticed by the first good probe or, by a new locker, at once.
		require.Lessf(t, at.Sub(restarted), ttl+2*time.Second+time.Second, "%s locker", name)
	}

	k = acquiredAfterRestarts(t, unguarded[0], "orders", ttl)
	restartEmpty(t, servers[:2]...)
	twin := acquiredAfterRestarts(t, unguarded[1], "orders", ttl)
	require.Positive(t, k.Validity(), "without the guard two hold the key at once: the test above can fail")
	require.Positive(t, twin.Validity())
}

// acquiredAfterRestarts makes attempts at all nodes at once: on Windows the client library finds out
// at the next command, and not before, that a restart has cut its connections.
func acquiredAfterRestarts(t *testing.T, l *redlock.Locker, key string, ttl time.Duration) *redlock.Lock {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		k, err := l.TryAcquire(t.Context(), key, ttl)
		if err == nil {
			return k
		}
		require.Less(t, time.Since(begin), ttl-time.Second, "%v", err)
	}
}

func TestNodesThatOutlivedTheWindowAreNoFreshDeployment(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	sleepUntilPast(50 * time.Millisecond) // early in a second: their whole seconds are fewer than their true age
	servers := redistest.ForTest(t, 3)
	started := time.Now()
	holder := openURLs(t, redistest.URLs(servers))
	time.Sleep(time.Until(started.Add(ttl + 400*time.Millisecond)))
	k, err := holder.TryAcquire(t.Context(), "orders", ttl)
	require.NoError(t, err)
	restartEmpty(t, servers[:2]...)
	twin, err := openURLs(t, redistest.URLs(servers)).TryAcquire(t.Context(), "orders", ttl)
	if err == nil {
		t.Errorf("granted with %v and %v of validity at once, as if all nodes were new", k.Validity(), twin.Validity())
	}
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
}

// Not parallel: it counts the goroutines of the process.
func TestAStoppedNodeCostsItsCallersNeitherErrorsNorGoroutines(t *testing.T) {
	const callers = 64
	stop := 2 * time.Second
	if os.Getenv("SOAK_FOR") != "" {
		stop = 6 * time.Second
	}
	servers := redistest.ForTest(t, 3)
	base := runtime.NumGoroutine()
	l := openURLs(t, redistest.URLs(servers))

	var stopped, ended atomic.Bool
	var unsure atomic.Int32
	times := make([][]time.Duration, callers)
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for i := 0; !ended.Load(); i++ {
				during := stopped.Load()
				begin := time.Now()
				k, err := l.TryAcquire(t.Context(), fmt.Sprintf("k%d-%d", c, i), 10*time.Second)
				if during {
					times[c] = append(times[c], time.Since(begin))
				}
				if err == nil {
					err = k.Release(t.Context())
					if !during && errors.Is(err, redlock.ErrNoQuorum) {
						// Granted before the stop by the node that stopped, while the SET for the third
						// node was still queued: Release drops that, and one node alone can confirm.
						unsure.Add(1)
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	servers[1].PauseForTest(t)
	stopped.Store(true)
	peak := 0
	for begin := time.Now(); time.Since(begin) < stop; time.Sleep(5 * time.Millisecond) {
		peak = max(peak, runtime.NumGoroutine())
	}
	stopped.Store(false)
	require.NoError(t, servers[1].Resume())
	ended.Store(true)
	running.Wait()

	all := slices.Concat(times...)
	require.NotEmpty(t, all)
	slices.Sort(all)
	p99 := all[len(all)*99/100]
	t.Logf("%d acquires in %v: median %v, p99 %v, longest %v; at most %d goroutines above the %d callers; %d releases unsure",
		len(all), stop, all[len(all)/2], p99, all[len(all)-1], peak-base-callers, callers, unsure.Load())
	require.LessOrEqual(t, unsure.Load(), int32(callers))
	require.Less(t, p99, 500*time.Millisecond)
	require.LessOrEqual(t, peak-base-callers, 60)
}

func TestANodeWhoseClockRunsAheadIsNamedAtARenewal(t *testing.T) {
	t.Parallel()
	servers := redistest.SkewableForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers))
	require.NoError(t, servers[0].SetClock(0, 1.2))
	k, err := l.TryAcquire(t.Context(), "orders", 5*time.Second)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Nodes() == 3 }, time.Second, time.Millisecond)
	time.Sleep(time.Second)
	require.NoError(t, servers[1].Kill()) // or the other two would renew it without a word
	err = k.Renew(t.Context(), 5*time.Second)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, servers[0].Addr()+": its clock runs ahead")
	require.NotContains(t, err.Error(), servers[2].Addr(), "a true clock is not suspected")
	require.NoError(t, k.Err(), "the lock is held until its until")
	t.Log(err)

	_, err = l.TryAcquire(t.Context(), "other", 5*time.Second)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, servers[0].Addr()+": its clock ran ahead")
	require.NoError(t, k.Release(t.Context()))
}

func TestAConnectionCutAtTheSetLeavesNoKeyOnItsNode(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	direct := plainClient(t, servers[2])
	theirs := plainClient(t, servers[0])
	for i := range 20 { // one node less: half of the attempts hang on the third, and are lost with it
		for _, name := range []string{"before", "after"} {
			require.NoError(t, theirs.Set(t.Context(), fmt.Sprintf("%s-%d-theirs", name, i), 1, 0).Err())
		}
	}
	var running sync.WaitGroup
	for name, cut := range map[string]func(*redistest.Proxy){
		"before": (*redistest.Proxy).CutBefore,
		"after":  (*redistest.Proxy).CutAfter,
	} {
		for i := range 20 {
			p := redistest.ProxyForTest(t, servers[2].Addr())
			l := openURLs(t, []string{servers[0].URL(), servers[1].URL(), p.URL()})
			running.Go(func() {
				if err := cutAtTheSet(t.Context(), l, p, direct, cut, fmt.Sprintf("%s-%d", name, i), i%2 == 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	time.Sleep(2500 * time.Millisecond)
	require.Empty(t, direct.Keys(t.Context(), "*").Val())
}

// cutAtTheSet makes an attempt for a minute, with the connection to the third node cut at its
// SET: one that is won and released, or one that is lost for want of that node's vote.
func cutAtTheSet(ctx context.Context, l *redlock.Locker, p *redistest.Proxy, direct *redis.Client, cut func(*redistest.Proxy), name string, win bool) error {
	warm := func() bool { // the third node has given the key
		var nodes int
		err := l.Do(ctx, name+"-warm", time.Minute, func(_ context.Context, k *redlock.Lock) error {
			time.Sleep(50 * time.Millisecond)
			nodes = k.Nodes()
			return nil
		})
		return err == nil && nodes == 3
	}
	for i := 0; i < 20 && !warm(); i++ {
	}
	for direct.Exists(ctx, name+"-warm").Val() != 0 {
		time.Sleep(time.Millisecond)
	}
	struck := func(context.Context, *redlock.Lock) error {
		for range 200 {
			if strings.Contains(p.String(), "struck") {
				return nil
			}
			time.Sleep(5 * time.Millisecond)
		}
		return fmt.Errorf("%s: the cut has not struck: %v", name, p)
	}
	cut(p)
	if win {
		return l.Do(ctx, name, time.Minute, struck)
	}
	if _, err := l.TryAcquire(ctx, name+"-theirs", time.Minute); !errors.Is(err, redlock.ErrNotAcquired) {
		return fmt.Errorf("%s: a vote was made up for the node that was cut off: %w", name, err)
	}
	return struck(ctx, nil)
}

func TestANodeThatWakesUpHoldsNoKeyOfAttemptsLostMeanwhile(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	for _, s := range servers[:2] {
		c := plainClient(t, s)
		for i := range 8 {
			require.NoError(t, c.Set(t.Context(), fmt.Sprintf("theirs-%d", i), 1, 0).Err())
		}
	}
	var lockers []*redlock.Locker
	for range 4 {
		lockers = append(lockers, openURLs(t, redistest.URLs(servers)))
	}
	for _, l := range lockers {
		require.NoError(t, l.Do(t.Context(), "warm", time.Second, func(context.Context, *redlock.Lock) error { return nil }, redlock.Wait(2*time.Second)))
	}
	servers[2].PauseForTest(t)
	var running sync.WaitGroup
	for _, l := range lockers {
		for key := range 8 {
			running.Go(func() {
				for range 4 {
					_, err := l.TryAcquire(t.Context(), fmt.Sprintf("theirs-%d", key), time.Minute)
					if !errors.Is(err, redlock.ErrNotAcquired) {
						t.Errorf("acquired a key that others hold: %v", err)
					}
					time.Sleep(between(0, 100))
				}
			})
		}
	}
	running.Wait()
	require.NoError(t, servers[2].Resume())
	direct := plainClient(t, servers[2])
	begin := time.Now()
	require.Eventually(t, func() bool { return direct.DBSize(t.Context()).Val() == 0 }, 2500*time.Millisecond, time.Millisecond)
	t.Logf("empty %v after it woke up", time.Since(begin))
	time.Sleep(time.Until(begin.Add(2500 * time.Millisecond)))
	require.Empty(t, direct.Keys(t.Context(), "*").Val())
}
