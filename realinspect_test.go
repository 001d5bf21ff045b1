package redlock_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// plainly runs a command on each server, as any client would.
func plainly(t *testing.T, servers []*redistest.Server, args ...any) (replies []any) {
	t.Helper()
	for _, s := range servers {
		reply, err := plainClient(t, s).Do(t.Context(), args...).Result()
		if err != nil {
			require.ErrorIs(t, err, redis.Nil)
		}
		replies = append(replies, reply)
	}
	return replies
}

func inspected(t *testing.T, l *redlock.Locker, key string) *redlock.State {
	t.Helper()
	s, err := l.Inspect(t.Context(), key)
	require.NoError(t, err)
	return s
}

// everywhere waits until all nodes have a lock, which a won acquire does not.
func everywhere(t *testing.T, k *redlock.Lock, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return k.Nodes() == n }, 2*time.Second, time.Millisecond)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestRealServersLocksOfOtherLibrariesExcludeThisOneAndAreShown(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1)[0]
	for library, value := range map[string]string{
		"redsync":             base64.StdEncoding.EncodeToString(randomBytes(16)),
		"node-redlock":        hex.EncodeToString(randomBytes(20)),
		"StackExchange.Redis": fmt.Sprintf("WEB-01:%x", randomBytes(8)),
		"binary":              string(randomBytes(20)),
	} {
		require.Equal(t, []any{"OK", "OK", "OK"}, plainly(t, servers, "set", "orders", value, "nx", "px", 20_000), library)
		_, err := l.TryAcquire(t.Context(), "orders", 2*time.Second)
		require.ErrorIs(t, err, redlock.ErrHeld, library)
		s := inspected(t, l, "orders")
		require.True(t, s.Held, library)
		require.Equal(t, value, s.Token)
		require.Empty(t, s.Owner, library)
		require.Greater(t, s.TTL, 10*time.Second)
		require.LessOrEqual(t, s.TTL, 20*time.Second)
		require.Zero(t, s.Fence)
		for i, n := range s.Nodes {
			require.Equal(t, servers[i].Addr(), n.Node)
			require.Equal(t, value, n.Token)
			require.Greater(t, n.TTL, 10*time.Second)
			require.NoError(t, n.Err)
		}
		plainly(t, servers, "del", "orders")

		k, err := l.TryAcquire(t.Context(), "orders", 20*time.Second, redlock.Owner("me"))
		require.NoError(t, err)
		everywhere(t, k, 3)
		require.Equal(t, []any{nil, nil, nil}, plainly(t, servers, "set", "orders", value, "nx", "px", 20_000), library)
		s = inspected(t, l, "orders")
		require.Equal(t, []string{k.Token(), "me"}, []string{s.Token, s.Owner})
		require.NoError(t, k.Release(t.Context()))
		require.Eventually(t, func() bool { return inspected(t, l, "orders").Nodes[2].Token == "" }, time.Second, time.Millisecond)
		require.False(t, inspected(t, l, "orders").Held)
	}
}

func TestRealServersInspectShowsKeysWithoutExpiryAndOfAnotherType(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1)[0]
	plainly(t, servers, "set", "orders", "theirs")
	s := inspected(t, l, "orders")
	require.True(t, s.Held)
	require.EqualValues(t, -1, s.TTL)
	plainly(t, servers[:2], "pexpire", "orders", 20_000)
	s = inspected(t, l, "orders")
	require.Greater(t, s.TTL, 10*time.Second, "two nodes are a quorum, and one of them has an expiry")
	require.EqualValues(t, -1, s.Nodes[2].TTL)
	plainly(t, servers, "pexpire", "orders", int64(1)<<53)
	require.Greater(t, inspected(t, l, "orders").TTL, 140*365*24*time.Hour, "more than a Duration can be")

	for kind, write := range map[string][]any{
		"list": {"rpush"}, "set": {"sadd"}, "hash": {"hset", "field"}, "zset": {"zadd", 1}, "stream": {"xadd", "*", "field"},
	} {
		args := append(append([]any{write[0], "orders"}, write[1:]...), "x")
		plainly(t, servers, "del", "orders")
		plainly(t, servers, args...)
		plainly(t, servers[:1], "pexpire", "orders", 20_000)
		s := inspected(t, l, "orders")
		require.False(t, s.Held)
		for i, n := range s.Nodes {
			require.EqualError(t, n.Err, fmt.Sprintf("holds a %s, not a lock", kind))
			require.Empty(t, n.Token)
			require.Equal(t, i > 0, n.TTL == -1)
		}
	}
}

func TestRealServersInspectChangesNothing(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1)[0]
	k, err := l.TryAcquire(t.Context(), "orders", time.Minute)
	require.NoError(t, err)
	everywhere(t, k, 3)
	keys := []string{"orders", "{orders}:redlock-fence", "{orders}:redlock-waiters", "list"}
	plainly(t, servers, "zadd", "{orders}:redlock-waiters", 17, "redlock/x")
	plainly(t, servers, "pexpire", "{orders}:redlock-waiters", 30_000)
	plainly(t, servers, "rpush", "list", "x")
	for i, s := range servers {
		require.NoError(t, plainClient(t, s).Set(t.Context(), "{orders}:redlock-fence", 40+i, time.Hour).Err())
	}
	look := func() (seen []any) {
		for _, key := range keys {
			seen = append(seen, plainly(t, servers, "dump", key), plainly(t, servers, "pexpiretime", key))
		}
		return append(seen, plainly(t, servers, "dbsize"))
	}
	before := look()
	plainly(t, servers, "config", "resetstat")
	s := inspected(t, l, "orders")
	require.EqualValues(t, 41, s.Fence)
	require.Equal(t, k.Token(), s.Token)
	for _, key := range []string{"list", "nobody's"} {
		inspected(t, l, key)
	}
	for _, server := range servers {
		stats, err := plainClient(t, server).Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		for line := range strings.Lines(stats) {
			if name, _, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":"); found {
				require.Contains(t, []string{"get", "pttl", "type", "evalsha", "config|resetstat", "info", "hello", "client|setinfo"}, name)
			}
		}
		require.Contains(t, stats, "cmdstat_type")
		require.Contains(t, stats, "cmdstat_get:calls=4", "three keys, and the fence of the one that hold a string")
	}
	require.Equal(t, before, look())
	require.NoError(t, k.Release(t.Context()), "and the lock is none the worse")
}

func TestRealServersInspectTellsTheFenceOfEachHolder(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	settled(t, servers, 1)
	l := openURLs(t, redistest.URLs(servers), redlock.WithFencing())
	var fences []int64
	for range 3 {
		k, err := l.TryAcquire(t.Context(), "orders", time.Minute)
		require.NoError(t, err)
		everywhere(t, k, 3)
		require.Equal(t, k.Fence(), inspected(t, l, "orders").Fence)
		fences = append(fences, k.Fence())
		require.NoError(t, k.Release(t.Context()))
		require.Zero(t, inspected(t, l, "orders").Fence, "nobody's")
	}
	require.True(t, slices.IsSorted(fences))
	require.NotZero(t, fences[0])
}

func TestRealServersInspectOutlivesAStoppedNodeAndVanishedScripts(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := settled(t, servers, 1)[0]
	k, err := l.TryAcquire(t.Context(), "orders", time.Minute)
	require.NoError(t, err)
	everywhere(t, k, 3)
	for _, s := range servers {
		require.NoError(t, s.FlushScripts())
	}
	require.True(t, inspected(t, l, "orders").Held)

	servers[1].PauseForTest(t)
	begin := time.Now()
	s := inspected(t, l, "orders")
	first := time.Since(begin)
	require.True(t, s.Held)
	require.Equal(t, k.Token(), s.Nodes[2].Token)
	require.Error(t, s.Nodes[1].Err)
	time.Sleep(50 * time.Millisecond)
	begin = time.Now()
	s = inspected(t, l, "orders")
	t.Logf("back after %v, then after %v", first, time.Since(begin))
	require.Less(t, first, time.Second)
	require.Less(t, time.Since(begin), 150*time.Millisecond, "the breaker is open")
	require.Error(t, s.Nodes[1].Err)

	require.NoError(t, servers[2].Kill())
	require.Eventually(t, func() bool {
		s, err := l.Inspect(t.Context(), "orders")
		return err != nil && s.Nodes[0].Token == k.Token() && !s.Held && strings.Contains(err.Error(), servers[2].Addr()+": ")
	}, time.Second, 10*time.Millisecond)
	_, err = l.Inspect(t.Context(), "orders")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)

	require.NoError(t, servers[1].Resume())
	require.Eventually(t, func() bool {
		s, err := l.Inspect(context.Background(), "orders")
		return err == nil && s.Held && s.Nodes[1].Err == nil
	}, 10*time.Second, 20*time.Millisecond)
}

// A user with no more rights than locks take may inspect them; the type of another value and the
// fence are left out.
func TestRealServersInspectNeedsNoMoreRightsThanLocks(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	var poor, wrong []string
	for _, s := range servers {
		require.NoError(t, plainClient(t, s).Do(t.Context(), "acl", "setuser", "poor", "on", ">pw", "resetchannels", "~orders*",
			"+set", "+get", "+del", "+pttl", "+pexpire", "+evalsha", "+script", "+info", "+hello", "+select").Err())
		poor = append(poor, fmt.Sprintf("redis://poor:pw@%s", s.Addr()))
		wrong = append(wrong, fmt.Sprintf("redis://poor:wr0ng@%s", s.Addr()))
	}
	l := openURLs(t, poor)
	plainly(t, servers, "set", "orders", "theirs", "px", 20_000)
	plainly(t, servers, "set", "{orders}:redlock-fence", "7")
	s := inspected(t, l, "orders")
	require.Equal(t, "theirs", s.Token)
	require.Zero(t, s.Fence)
	require.NoError(t, s.Nodes[0].Err)
	plainly(t, servers, "del", "orders")
	plainly(t, servers, "rpush", "orders", "x")
	require.EqualError(t, inspected(t, l, "orders").Nodes[0].Err, "holds a value of another type, not a lock")

	s, err := l.Inspect(t.Context(), "forbidden")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, s.Nodes[0].Err, "the node's user needs")

	plainly(t, servers, "acl", "setuser", "poor", "-get", "+type")
	s, err = l.Inspect(t.Context(), "orders")
	require.ErrorIs(t, err, redlock.ErrNoQuorum, "that it is a list, or none, is not known without GET")
	require.Regexp(t, "can't run this command|NOPERM|ACL", s.Nodes[0].Err.Error())

	stranger := openURLs(t, wrong)
	for range 2 { // as the answer to the first command, and from an open breaker
		s, err = stranger.Inspect(t.Context(), "orders")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotContains(t, err.Error(), "wr0ng")
		for _, n := range s.Nodes {
			require.Equal(t, 1, strings.Count(n.Err.Error(), "check user and password"), "%v", n.Err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
