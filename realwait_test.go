package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// Figures are logged and bounded generously: other tests share the processors. What waiting costs is
// measured by bench/peers -waiting.

// settled opens lockers on servers that are no fresh deployment to them any more.
func settled(t *testing.T, servers []*redistest.Server, n int, opts ...redlock.Option) (lockers []*redlock.Locker) {
	t.Helper()
	for range n {
		lockers = append(lockers, openURLs(t, redistest.URLs(servers), opts...))
	}
	settle(t, lockers[0])
	return lockers
}

func settle(t *testing.T, l *redlock.Locker) {
	t.Helper()
	require.Eventually(t, func() bool {
		k, err := l.TryAcquire(t.Context(), "settled", 2*time.Second)
		return err == nil && k.Release(t.Context()) == nil
	}, 10*time.Second, 50*time.Millisecond)
}

// listening waits until n subscribers wait for wake-ups on the servers.
func listening(t *testing.T, servers []*redistest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		heard := 0
		for _, s := range servers {
			channels, err := plainClient(t, s).PubSubChannels(context.Background(), "redlock/*").Result()
			if err == nil {
				heard += len(channels)
			}
		}
		return heard == n
	}, 5*time.Second, 10*time.Millisecond)
}

func waitingLists(t *testing.T, servers []*redistest.Server) (lists []string) {
	t.Helper()
	for _, s := range servers {
		keys, err := plainClient(t, s).Keys(context.Background(), "*:redlock-waiters").Result()
		require.NoError(t, err)
		lists = append(lists, keys...)
	}
	return lists
}

// inLine returns how many lockers are in the waiting lists of a key.
func inLine(t *testing.T, servers []*redistest.Server, key string) (n int) {
	t.Helper()
	for _, s := range servers {
		n += int(plainClient(t, s).ZCard(t.Context(), "{"+key+"}:redlock-waiters").Val())
	}
	return n
}

func TestRealServersHandTheKeyOverInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 5)
	// An attempt after a back-off may be lucky: there should be none.
	lockers := settled(t, servers, 6, redlock.WithBackoff(time.Hour, time.Hour))
	k, err := lockers[0].TryAcquire(t.Context(), "orders", 20*time.Second)
	require.NoError(t, err)
	type grant struct {
		locker int
		lock   *redlock.Lock
		at     time.Time
	}
	grants := make(chan grant)
	for i, l := range lockers[1:] {
		go func() {
			k, err := l.Acquire(context.Background(), "orders", 20*time.Second, redlock.Wait(time.Minute))
			if err == nil {
				grants <- grant{i, k, time.Now()}
			}
		}()
		listening(t, servers, i+1)
		require.Eventually(t, func() bool { return inLine(t, servers, "orders") == i+1 }, 10*time.Second, time.Millisecond)
	}
	for i := range lockers[1:] {
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		g := <-grants
		t.Logf("handed over in %v", g.at.Sub(released))
		require.Equal(t, i, g.locker)
		k = g.lock
	}
	require.NoError(t, k.Release(t.Context()))
	require.Eventually(t, func() bool { return len(waitingLists(t, servers)) == 0 }, time.Second, 10*time.Millisecond)
}

func TestRealServersACrashedHoldersKeyIsTakenWhenItExpires(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 5)
	lockers := settled(t, servers, 2)
	for range 5 {
		k, err := lockers[0].TryAcquire(t.Context(), "orders", 1500*time.Millisecond) // and nothing more is heard of it
		require.NoError(t, err)
		expires := time.Now().Add(1500 * time.Millisecond)
		next, err := lockers[1].Acquire(t.Context(), "orders", 2*time.Second, redlock.Wait(0))
		require.NoError(t, err)
		late := time.Since(expires)
		t.Logf("taken %v after it expired", late)
		require.Error(t, k.Err())
		require.Less(t, late, time.Second)
		require.NoError(t, next.Release(t.Context()))
	}
}

func TestRealServersAKeyHeldForCenturiesEndsTheWaitingByItsLimit(t *testing.T) {
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1)[0]
	for key, seconds := range map[string]string{"long": "9000000000", "longer": "9999999999"} { // a time.Duration ends at 292 years
		for _, s := range servers {
			require.NoError(t, plainClient(t, s).Do(t.Context(), "set", key, "theirs", "nx", "ex", seconds).Err())
		}
		before, begin := l.Stats().Attempts, time.Now()
		_, err := l.Acquire(t.Context(), key, time.Minute, redlock.Wait(2*time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.InDelta(t, 2, time.Since(begin).Seconds(), 1)
		require.Less(t, l.Stats().Attempts-before, uint64(50))
		t.Logf("held for %s s: %d attempts in %v", seconds, l.Stats().Attempts-before, time.Since(begin))
	}
}

func TestRealServersOneLockersCallersCostFewCommands(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 5)
	l := settled(t, servers, 1)[0]
	before := commandsOf(t, servers)
	var left, inside atomic.Int32
	left.Store(500)
	var group sync.WaitGroup
	begin := time.Now()
	for range 100 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				k, err := l.Acquire(context.Background(), "orders", 20*time.Second, redlock.Wait(0))
				require.NoError(t, err)
				require.EqualValues(t, 1, inside.Add(1))
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				require.NoError(t, k.Release(context.Background()))
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	perGrant := float64(commandsOf(t, servers)-before) / 500
	t.Logf("500 grants in %v, %.1f commands for each", took, perGrant)
	require.LessOrEqual(t, perGrant, 30.0)
}

// commandsOf counts the commands that the servers have executed, those of scripts too.
func commandsOf(t *testing.T, servers []*redistest.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		info, err := plainClient(t, s).Info(context.Background(), "stats").Result()
		require.NoError(t, err)
		for line := range strings.Lines(info) {
			if count, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
				processed, err := strconv.Atoi(count)
				require.NoError(t, err)
				n += processed
			}
		}
	}
	return n
}

// contenders are lockers that take one key again and again, and what became of it.
type contenders struct {
	mu     sync.Mutex
	grants []time.Time
	group  sync.WaitGroup
	stop   context.CancelFunc
}

func contend(t *testing.T, lockers []*redlock.Locker, key string) *contenders {
	ctx, stop := context.WithCancel(context.Background())
	c := &contenders{stop: stop}
	t.Cleanup(func() { stop(); c.group.Wait() })
	var inside atomic.Int32
	for _, l := range lockers {
		c.group.Go(func() {
			for ctx.Err() == nil {
				k, err := l.Acquire(ctx, key, 20*time.Second, redlock.Wait(0))
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two holders")
				}
				c.mu.Lock()
				c.grants = append(c.grants, time.Now())
				c.mu.Unlock()
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				_ = k.Release(ctx)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return c
}

// pause returns the longest time without a grant since begin.
func (c *contenders) pause(begin time.Time) (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := begin
	for _, at := range append(slices.Clone(c.grants), time.Now()) {
		if at.After(last) {
			longest = max(longest, at.Sub(last))
			last = at
		}
	}
	return longest
}

func TestRealServersGrantsGoOnWhenTheGateIsStoppedAndKilled(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 5)
	lockers := settled(t, servers, 8)
	c := contend(t, lockers, "orders")
	for round := range 2 {
		time.Sleep(500 * time.Millisecond)
		gate := servers[slices.IndexFunc(servers, func(s *redistest.Server) bool {
			n, err := plainClient(t, s).Exists(context.Background(), "{orders}:redlock-waiters").Result()
			return err == nil && n == 1
		})]
		stopped := time.Now()
		gate.PauseForTest(t)
		time.Sleep(1200 * time.Millisecond)
		t.Logf("gate %d stopped: no grant for %v", round+1, c.pause(stopped))
		require.Less(t, c.pause(stopped), 1200*time.Millisecond)
		killed := time.Now()
		require.NoError(t, gate.Kill())
		time.Sleep(1200 * time.Millisecond)
		t.Logf("gate %d killed: no grant for %v", round+1, c.pause(killed))
		require.Less(t, c.pause(killed), 1200*time.Millisecond)
	}
}

// A user without any right to what waiting needs takes, renews and releases locks all the same, and
// waits by back-off.
func TestRealServersWithoutRightsToWaitingListsStillWork(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	var poor, rich []string
	for i, s := range servers {
		require.NoError(t, plainClient(t, s).Do(t.Context(), "acl", "setuser", "poor", "on", ">pw", "resetchannels", "~orders*",
			"+set", "+get", "+del", "+pttl", "+pexpire", "+evalsha", "+script", "+info", "+hello", "+select").Err())
		poor = append(poor, fmt.Sprintf("redis://poor:pw@%s", s.Addr()))
		rich = append(rich, redistest.URLs(servers)[i])
	}
	holder, waiter, other := openURLs(t, poor), openURLs(t, poor), openURLs(t, rich)
	require.Eventually(t, func() bool {
		k, err := holder.TryAcquire(t.Context(), "orders", 2*time.Second)
		return err == nil && k.Renew(t.Context(), 2*time.Second) == nil && k.Release(t.Context()) == nil
	}, 10*time.Second, 50*time.Millisecond)
	for range 3 {
		k, err := holder.TryAcquire(t.Context(), "orders", 20*time.Second)
		require.NoError(t, err)
		var group sync.WaitGroup
		for _, l := range []*redlock.Locker{waiter, other} {
			group.Go(func() {
				next, err := l.Acquire(t.Context(), "orders", 20*time.Second, redlock.Wait(10*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				if err := next.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, k.Release(t.Context()))
		group.Wait()
	}
	require.Zero(t, holder.Stats().Nodes[0].Debts)
}
