package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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

// Lua has a limit to what it can pass on at once.
func TestRealServersReleaseALockOfAThousandKeys(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers), redlock.WithNodeTimeout(5*time.Second))
	keys := make([]string, 1000)
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

// On a server, Lua takes more for numbers than on the stand-ins of other tests.
func TestRealServersCountOnFromAnyValueButTheLargest(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1, redlock.WithFencing())[0]
	for i, c := range []struct {
		value string
		full  bool
	}{
		{"", false}, {"abc", false}, {"nan", false}, {"-nan", false}, {"1.5", false}, {"-7", false}, {"-inf", false}, {"0x10", false}, {" 5 ", false}, {"5\x00", false},
		{"2000000000000000.5", false}, {"9e15", false}, {"9007199254740000", false}, {"9007199254740990", false},
		{"9007199254740991", true}, {"9007199254740992", true}, {"99999999999999999999", true}, {"0xffffffffffffffff", true}, {"inf", true}, {"1e300", true}, {"1e999", true},
	} {
		key := fmt.Sprint("n", i)
		number := "{" + key + "}:redlock-fence"
		plainly(t, servers, "set", number, c.value)
		last := time.Now().Add(-time.Second).UnixMicro()
		for range 3 {
			k, err := l.TryAcquire(t.Context(), key, 20*time.Second)
			if err != nil {
				require.True(t, c.full || last == 1<<53-1, "%q: %v", c.value, err)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.ErrorContains(t, err, "would be 2^53 or more (set this machine's clock if it is wrong; or else")
				break
			}
			require.False(t, c.full, "%q", c.value)
			require.Greater(t, k.Fence(), last, "%q", c.value)
			last = k.Fence()
			everywhere(t, k, 3)
			require.NoError(t, k.Renew(t.Context(), 20*time.Second))
			for _, stored := range plainly(t, servers, "get", number) {
				require.Equal(t, fmt.Sprint(last), stored, "%q", c.value)
			}
			require.NoError(t, k.Release(t.Context()))
		}
		if c.full {
			require.Equal(t, []any{c.value, c.value, c.value}, plainly(t, servers, "get", number))
			require.Equal(t, []any{nil, nil, nil}, plainly(t, servers, "get", key))
		}
	}
}

func TestRealServersHoldALockWhoseNumberIsTooLarge(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1, redlock.WithFencing())[0]
	for i, value := range []string{"9007199254740992", "99999999999999999999", "inf", "1e300"} {
		key := fmt.Sprint("held", i)
		k, err := l.TryAcquire(t.Context(), key, 20*time.Second)
		require.NoError(t, err)
		everywhere(t, k, 3)
		plainly(t, servers, "set", "{"+key+"}:redlock-fence", value)
		require.NoError(t, k.Renew(t.Context(), 20*time.Second))
		_, err = l.Resume(t.Context(), key, k.Token(), 20*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "number of key 1 is 2^53 or more (set this machine's clock if it is wrong; or else")
		require.NoError(t, k.Release(t.Context()))
		require.Equal(t, []any{value, value, value}, plainly(t, servers, "get", "{"+key+"}:redlock-fence"))
	}
}

func TestRealServersKeepTheNumberOfAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	const life = time.Hour
	l := settled(t, servers, 1, redlock.WithFencing(), redlock.WithFenceLife(life))[0]
	lives := func(want time.Duration) {
		t.Helper()
		for _, left := range plainly(t, servers, "pttl", "{orders}:redlock-fence") {
			require.InDelta(t, want, time.Duration(left.(int64))*time.Millisecond, float64(20*time.Second))
		}
	}
	plainly(t, servers, "set", "{orders}:redlock-fence", time.Now().Add(100*24*time.Hour).UnixMicro())
	k, err := l.TryAcquire(t.Context(), "orders", 20*time.Second)
	require.NoError(t, err)
	everywhere(t, k, 3)
	lives(100*24*time.Hour + life)
	plainly(t, servers, "pexpire", "{orders}:redlock-fence", 30_000)
	require.NoError(t, k.Renew(t.Context(), 20*time.Second))
	everywhere(t, k, 3)
	lives(100*24*time.Hour + life)
	require.NoError(t, k.Release(t.Context()))
	plainly(t, servers, "set", "{orders}:redlock-fence", int64(1)<<53-2)
	k, err = l.TryAcquire(t.Context(), "orders", 3*life)
	require.NoError(t, err)
	require.NoError(t, k.Renew(t.Context(), 3*life))
	require.Equal(t, int64(1)<<53-1, k.Fence())
	require.NoError(t, k.Release(t.Context()))
}

// rightsOfLocks are those that docs/design.md names for locks, with fences.
const rightsOfLocks = "set get del exists pttl pexpire evalsha script|load info"

func TestRealServersTheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string]string{"with TIME": rightsOfLocks + " time", "without TIME": rightsOfLocks} {
		t.Run(name, func(t *testing.T) {
			servers := redistest.ForTest(t, 3)
			var urls []string
			for _, s := range servers {
				args := []any{"acl", "setuser", "locks", "on", ">pw", "resetkeys", "resetchannels", "-@all", "~orders*", "~{orders*}:redlock-fence"}
				for command := range strings.FieldsSeq(rights) {
					args = append(args, "+"+command)
				}
				require.NoError(t, plainClient(t, s).Do(t.Context(), args...).Err())
				urls = append(urls, fmt.Sprintf("redis://locks:pw@%s", s.Addr()))
			}
			l := openURLs(t, urls, redlock.WithRestartGuard(redlock.GuardOff), redlock.WithFencing())
			var k *redlock.Lock
			require.Eventually(t, func() (ok bool) {
				var err error
				k, err = l.TryAcquireAll(t.Context(), []string{"orders1", "orders2"}, 20*time.Second)
				return err == nil
			}, 10*time.Second, 50*time.Millisecond)
			require.NoError(t, k.Renew(t.Context(), 20*time.Second))
			everywhere(t, k, 3)
			week := 7 * 24 * time.Hour
			if name == "without TIME" {
				week += 366 * 24 * time.Hour
			}
			for _, left := range plainly(t, servers, "pttl", "{orders2}:redlock-fence") {
				require.InDelta(t, week, time.Duration(left.(int64))*time.Millisecond, float64(20*time.Second))
			}
			waits := make(chan error, 1)
			go func() {
				k, err := l.Acquire(t.Context(), "orders1", 20*time.Second, redlock.Wait(10*time.Second))
				if err == nil {
					err = k.Release(t.Context())
				}
				waits <- err
			}()
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, k.Release(t.Context()))
			require.NoError(t, <-waits)
			k, err := l.TryAcquire(t.Context(), "orders3", 20*time.Second)
			require.NoError(t, err)
			again, err := l.Resume(t.Context(), "orders3", k.Token(), 20*time.Second)
			require.NoError(t, err)
			require.GreaterOrEqual(t, again.Fence(), k.Fence())
			require.NoError(t, again.Release(t.Context()))
		})
	}
}

// The keys beside a lock hold lists and strings where they should not.
func TestRealServersKeysOfOtherTypesBesideALockLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1, redlock.WithFencing())[0]
	plainly(t, servers, "rpush", "{a}:redlock-fence", "x")
	_, err := l.TryAcquire(t.Context(), "a", time.Minute)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, []any{nil, nil, nil}, plainly(t, servers, "get", "a"), "nothing is taken where no number can be had")
	plainly(t, servers, "set", "{b}:redlock-waiters", "x")
	plainly(t, servers, "rpush", "{c}:redlock-waiters", "x")
	for _, key := range []string{"b", "c"} {
		k, err := l.TryAcquire(t.Context(), key, time.Minute)
		require.NoError(t, err)
		waits := make(chan error, 1)
		go func() {
			k, err := l.Acquire(t.Context(), key, time.Minute, redlock.Wait(20*time.Second))
			if err == nil {
				err = k.Release(t.Context())
			}
			waits <- err
		}()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, <-waits)
	}
}

// A lock of as many keys as there may be, again and again, beside another caller of the locker.
func TestRealServersALockOfAThousandKeysHurtsNobody(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1, redlock.WithFencing(), redlock.WithNodeTimeout(time.Second))[0]
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	grants := 0
	other.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			k, err := l.TryAcquire(context.Background(), fmt.Sprint("other", i), time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			grants++
			if err := k.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		_, err := l.TryAcquireAll(t.Context(), keys, time.Minute)
		require.EqualError(t, err, "redlock: keys: 50,000 given; a lock has at most 1,000")
		k, err := l.TryAcquireAll(t.Context(), keys[:1000], time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		require.NoError(t, k.Release(t.Context()))
	}
	cancel()
	other.Wait()
	require.NotZero(t, grants)
	require.Zero(t, l.Stats().Nodes[0].Debts)
	t.Logf("%d grants of the other caller", grants)
}
