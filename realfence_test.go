package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// fencedGrant is one grant: when its attempts may have begun, when it was given, and its fence.
type fencedGrant struct {
	asked, given time.Time
	fence        int64
}

// requireGrowing checks every pair: of two grants, the one whose acquire began after the other was given has the
// larger fence.
func requireGrowing(t *testing.T, grants []fencedGrant) {
	t.Helper()
	slices.SortFunc(grants, func(a, b fencedGrant) int { return a.given.Compare(b.given) })
	pairs := 0
	for i, a := range grants {
		for _, b := range grants[i+1:] {
			if b.asked.After(a.given) {
				pairs++
				require.Greater(t, b.fence, a.fence, "asked %v after the other was given", b.asked.Sub(a.given))
			}
		}
	}
	require.NotZero(t, pairs)
	t.Logf("%d grants, %d pairs in order", len(grants), pairs)
}

func TestRealServersFencesGrowWhileTwoOfFiveForgetAgainAndAgain(t *testing.T) {
	servers := redistest.ForTest(t, 5)
	var lockers []*redlock.Locker
	for range 4 {
		lockers = append(lockers, openURLs(t, redistest.URLs(servers), redlock.WithFencing()))
	}
	settle(t, lockers[0])
	want := int64(300)
	if os.Getenv("SOAK_FOR") != "" {
		want = 2000
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var grants []fencedGrant
	var left atomic.Int64
	left.Store(want)
	var workers, chaos sync.WaitGroup
	restarts := 0
	chaos.Go(func() { // before a node is killed, a grant has reached all that came back
		for ctx.Err() == nil {
			for _, i := range rand.Perm(5)[:2] {
				require.NoError(t, servers[i].Kill())
				time.Sleep(30 * time.Millisecond)
				require.NoError(t, servers[i].RestartEmpty())
			}
			restarts += 2
			time.Sleep(200 * time.Millisecond)
		}
	})
	for i := range 8 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				asked := time.Now()
				k, err := lockers[i%4].Acquire(ctx, "orders", 200*time.Millisecond, redlock.Wait(time.Minute))
				if err != nil {
					left.Add(1)
					continue
				}
				g := fencedGrant{asked, time.Now(), k.Fence()}
				mu.Lock()
				grants = append(grants, g)
				mu.Unlock()
				_ = k.Release(ctx)
			}
		})
	}
	workers.Wait()
	cancel()
	chaos.Wait()
	t.Logf("%d restarts without data", restarts)
	require.EqualValues(t, want, len(grants))
	requireGrowing(t, grants)
}

// Lua has a limit to what it can pass on at once, and a lock has none to its keys.
func TestRealServersReleaseALockOfThousandsOfKeys(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers), redlock.WithNodeTimeout(5*time.Second))
	keys := make([]string, 9001)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	k, err := l.TryAcquireAll(t.Context(), keys, time.Minute)
	require.NoError(t, err)
	require.NoError(t, k.Release(t.Context()))
	for _, s := range servers {
		require.Eventually(t, func() bool {
			left, err := plainClient(t, s).DBSize(t.Context()).Result()
			return err == nil && left == 0
		}, 10*time.Second, 10*time.Millisecond)
	}
}

func TestRealServersPairsOfKeysNeverDeadlockOrOverlap(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 5)
	lockers := settled(t, servers, 4)
	lasts := 2 * time.Second
	if os.Getenv("SOAK_FOR") != "" {
		lasts = soakLength(t)
	}
	var held [10]atomic.Int32
	var grants atomic.Int64
	var group sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range 200 {
		group.Go(func() {
			for time.Now().Before(end) {
				pair := rand.Perm(10)[:2]
				keys := []string{fmt.Sprint("key", pair[0]), fmt.Sprint("key", pair[1])}
				k, err := lockers[i%4].AcquireAll(context.Background(), keys, 20*time.Second, redlock.Wait(30*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range pair {
					if held[p].Add(1) != 1 {
						t.Errorf("key%d is held twice", p)
					}
				}
				grants.Add(1)
				for _, p := range pair {
					held[p].Add(-1)
				}
				if err := k.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d grants of pairs in %v", grants.Load(), lasts)
	require.Greater(t, grants.Load(), int64(200))
	require.Eventually(t, func() bool {
		for _, s := range servers {
			keys, err := plainClient(t, s).Keys(context.Background(), "*key*").Result()
			if err != nil || len(keys) > 0 {
				return false
			}
		}
		return true
	}, 5*time.Second, 50*time.Millisecond)
}

func TestRealServersALockIsHandedOverByItsToken(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	first := openURLs(t, redistest.URLs(servers), redlock.WithFencing())
	settle(t, first)
	k, err := first.TryAcquire(t.Context(), "orders", 20*time.Second)
	require.NoError(t, err)
	second := openURLs(t, redistest.URLs(servers), redlock.WithFencing())
	again, err := second.Resume(t.Context(), "orders", k.Token(), 20*time.Second)
	require.NoError(t, err)
	require.Equal(t, k.Fence(), again.Fence())
	require.NoError(t, again.Release(t.Context()))
	_, err = second.Resume(t.Context(), "orders", k.Token(), 20*time.Second)
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost)
}
