package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// deaf is a client in a wrapper, for instance of a metrics library, that keeps hooks to itself.
type deaf struct{ redis.UniversalClient }

func (deaf) AddHook(redis.Hook) {}

// clientKinds are the kinds of clients that New takes, with what their servers need.
var clientKinds = []struct {
	name    string
	cluster bool
	make    func(addr string) redis.UniversalClient
}{
	{"Client", false, func(addr string) redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: addr}) }},
	{"Client in use", false, func(addr string) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: addr, MinIdleConns: 3})
		_ = c.Ping(context.Background()).Err()
		return c
	}},
	{"clone by WithTimeout", false, func(addr string) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: addr}).WithTimeout(time.Second)
	}},
	{"wrapper", false, func(addr string) redis.UniversalClient {
		return deaf{redis.NewClient(&redis.Options{Addr: addr})}
	}},
	{"Ring", false, func(addr string) redis.UniversalClient {
		return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}})
	}},
	{"ClusterClient", true, func(addr string) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	}},
}

func startFor(t *testing.T, n int, cluster bool) []*redistest.Server {
	t.Helper()
	if !cluster {
		return redistest.ForTest(t, n)
	}
	servers := redistest.ForTest(t, n, "--cluster-enabled", "yes")
	takeAllSlots(t, servers)
	return servers
}

func takeAllSlots(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		c := plainClient(t, s)
		_ = c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err() // some may be known from before
		require.Eventually(t, func() bool { return c.ClusterInfo(t.Context()).Val()[:16] == "cluster_state:ok" }, 10*time.Second, 20*time.Millisecond)
	}
}

// Two of three nodes restart empty while a lock is held. A locker that was open all the time must not count
// their votes, whatever the kind of its clients.
func TestRealServersThatRestartAreNoticedThroughEveryKindOfClient(t *testing.T) {
	for _, kind := range clientKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			servers := startFor(t, 3, kind.cluster)
			open := func() *redlock.Locker {
				var clients []redis.UniversalClient
				for _, s := range servers {
					c := kind.make(s.Addr())
					t.Cleanup(func() { _ = c.Close() })
					clients = append(clients, c)
				}
				l, err := redlock.New(clients)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, l.Close()) })
				return l
			}
			const ttl = 20 * time.Second
			a, b := open(), open()
			for i, l := range []*redlock.Locker{a, b} {
				k, err := l.Acquire(t.Context(), fmt.Sprint("warm", i), ttl, redlock.Wait(2*ttl))
				require.NoError(t, err)
				require.NoError(t, k.Release(t.Context()))
			}
			k, err := a.TryAcquire(t.Context(), "orders", ttl)
			require.NoError(t, err)
			restartEmpty(t, servers[1:]...)
			if kind.cluster {
				takeAllSlots(t, servers[1:])
			}
			for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
				twin, err := b.TryAcquire(t.Context(), "orders", ttl)
				if err == nil {
					t.Fatalf("granted on %d nodes while the first lock is valid for %v", twin.Nodes(), k.Validity())
				}
			}
			restarts := 0
			for _, n := range b.Stats().Nodes {
				restarts += n.Restarts
			}
			require.Equal(t, 2, restarts)
		})
	}
}

// A waiter has listened for wake-ups: its subscription ends at once, too.
func TestRealServersCloseIsQuickAndNamesNoNodeWithEveryKindOfClient(t *testing.T) {
	for _, kind := range clientKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			servers := startFor(t, 1, kind.cluster)
			c := kind.make(servers[0].Addr())
			t.Cleanup(func() { _ = c.Close() })
			l, err := redlock.New([]redis.UniversalClient{c})
			require.NoError(t, err)
			require.NoError(t, plainClient(t, servers[0]).Set(t.Context(), "orders", "somebody", 300*time.Millisecond).Err())
			k, err := l.Acquire(t.Context(), "orders", 10*time.Second, redlock.Wait(5*time.Second))
			require.NoError(t, err)
			require.NoError(t, k.Release(t.Context()))
			begin := time.Now()
			require.NoError(t, l.Close())
			require.Less(t, time.Since(begin), 150*time.Millisecond, "less than a node timeout")
		})
	}
}

// Servers that were started together vote at once, however old they are and whatever the ttl.
func TestRealServersThatWereStartedTogetherVoteAtOnce(t *testing.T) {
	ages := 10 * time.Second
	if testing.Short() {
		ages = 3 * time.Second
	}
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			urls := redistest.URLs(redistest.ForTest(t, n))
			for begin := time.Now(); time.Since(begin) < ages; time.Sleep(230 * time.Millisecond) {
				for _, ttl := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute} {
					l, err := redlock.Open(urls, redlock.WithNodeTimeout(90*time.Millisecond))
					require.NoError(t, err)
					k, err := l.Acquire(t.Context(), "orders", ttl, redlock.Wait(5*time.Millisecond))
					if err != nil { // the machine may be too busy for a short ttl
						require.Contains(t, err.Error(), "no answer within", "%v old, ttl %v", time.Since(begin), ttl)
					} else {
						require.NoError(t, k.Release(t.Context()))
					}
					require.NoError(t, l.Close())
				}
			}
		})
	}
}

// Rolling maintenance: each node loses its keys, one after the other, and no locker opened since then may
// take them for new ones while the first lock is valid.
func TestRealServersThatAreRestartedInTurnGrantNoHeldKey(t *testing.T) {
	const gap, ttl = 3500 * time.Millisecond, 15 * time.Second
	if testing.Short() {
		t.Skip("takes the time of the restarts")
	}
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	holder := openURLs(t, redistest.URLs(servers))
	k, err := holder.Acquire(t.Context(), "orders", ttl, redlock.Wait(5*time.Second))
	require.NoError(t, err)
	for i, s := range servers {
		if i > 0 {
			time.Sleep(gap)
		}
		restartEmpty(t, s)
	}
	others := []*redlock.Locker{openURLs(t, redistest.URLs(servers)), openURLs(t, redistest.URLs(servers), redlock.WithRestartGuard(redlock.GuardStrict))}
	for k.Validity() > 0 {
		for _, l := range others {
			twin, err := l.TryAcquire(t.Context(), "orders", ttl)
			if err == nil {
				t.Fatalf("granted on %d nodes while the first lock is valid for %v", twin.Nodes(), k.Validity())
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Eventually(t, func() bool {
		k, err := others[0].TryAcquire(t.Context(), "orders", ttl)
		return err == nil && k.Release(t.Context()) == nil
	}, 2*ttl, 100*time.Millisecond, "and the key is free in the end")
}
