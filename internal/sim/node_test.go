package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// bench is one node and one client of go-redis, with nothing but a delay of 1 ms between them.
type bench struct {
	*testing.T
	node   *node
	wire   *wire
	client *redis.Client
}

func inBubble(t *testing.T, ppm int, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &eventLog{begin: time.Now()}
		b := &bench{T: t, node: newNode(0, log, nodeClock{time.Now(), time.Hour, ppm}, 0)}
		b.node.observer = func(execution) {}
		b.wire = newWire(plan{delay: time.Millisecond, delaySpread: 1, jitter: 1}, log, 0, 0, 0)
		b.client = b.connect()
		test(b)
		b.node.close()
	})
}

func (b *bench) connect() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: "10.0.0.1:6379", Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		ReadTimeout: 100 * time.Millisecond, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.wire.dial(ctx, b.node, 0, commands) },
	})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func TestKeysExpireByTheNodesClock(t *testing.T) {
	for _, c := range []struct {
		ppm  int
		life time.Duration
	}{{0, 10 * time.Second}, {maxRate, 9900990099}, {-maxRate, 10101010102}} {
		inBubble(t, c.ppm, func(b *bench) {
			begin := time.Now()
			require.NoError(b, b.client.Set(b.Context(), "k", "v", 10*time.Second).Err())
			stored := begin.Add(3 * time.Millisecond) // the handshake's round trip, and one way
			for time.Since(stored) < c.life-time.Millisecond {
				time.Sleep(time.Millisecond)
			}
			require.Equal(b, "v", b.node.value("k"))
			time.Sleep(10 * time.Millisecond)
			require.Empty(b, b.node.value("k"))
		})
	}
}

func TestAHungNodeExecutesLaterWhatAClosedConnectionHadSent(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		require.NoError(b, b.client.Ping(b.Context()).Err())
		b.node.hang()
		require.Error(b, b.client.Set(b.Context(), "k", "v", 0).Err())
		require.NoError(b, b.client.Close())
		time.Sleep(time.Minute)
		require.Empty(b, b.node.value("k"))
		b.node.resume(rand.New(rand.NewPCG(1, 1)))
		require.Equal(b, "v", b.node.value("k"))
	})
}

func TestACrashedNodeKeepsItsDataOrForgetsIt(t *testing.T) {
	for _, memory := range []bool{true, false} {
		inBubble(t, 0, func(b *bench) {
			require.NoError(b, b.client.Set(b.Context(), "k", "v", 0).Err())
			before := b.runID()
			b.node.crash(false)
			require.ErrorContains(b, b.client.Ping(b.Context()).Err(), "reset")
			require.ErrorContains(b, b.client.Ping(b.Context()).Err(), "refused")
			b.node.restart(memory)
			require.Equal(b, memory, b.node.value("k") == "v")
			require.NotEqual(b, before, b.runID())
		})
	}
}

func TestUptimeGoesByTheNodesClock(t *testing.T) {
	inBubble(t, maxRate, func(b *bench) {
		time.Sleep(1000 * time.Second)
		require.Contains(b, b.client.Info(b.Context(), "server").Val(), "uptime_in_seconds:1010\r\n")
		b.node.crash(true)
		b.node.restart(true)
		require.Contains(b, b.connect().Info(b.Context(), "server").Val(), "uptime_in_seconds:0\r\n")
	})
}

func TestWhatNodesTellOfThemselves(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		time.Sleep(5*time.Second + 250*time.Millisecond)
		ask := func() string { text, _ := b.client.Info(b.Context(), "server").Result(); return text }
		require.NotContains(b, ask(), "server_time_usec")
		b.node.modern = true
		require.Contains(b, ask(), fmt.Sprintf("server_time_usec:%d\r\n", b.node.started.Add(5200*time.Millisecond).UnixMicro()))
		require.Contains(b, ask(), "uptime_in_seconds:5\r\n")
		b.node.keepTo(tellsNoRunID)
		require.NotContains(b, ask(), "run_id")
		b.node.keepTo(refusesInfo)
		require.ErrorContains(b, b.client.Info(b.Context(), "server").Err(), "NOPERM")
	})
}

func (b *bench) runID() string {
	_, id, _ := strings.Cut(b.client.Info(b.Context(), "server").Val(), "run_id:")
	return id[:40]
}

func TestABlockedLinkBringsLaterWhatItKept(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		require.NoError(b, b.client.Ping(b.Context()).Err())
		b.wire.up.block()
		require.ErrorContains(b, b.client.Set(b.Context(), "k", "v", 0).Err(), "timeout")
		require.Empty(b, b.node.value("k"))
		b.wire.up.unblock(time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		require.Equal(b, "v", b.node.value("k"))
	})
}

// TestScriptsDoWhatMiniredisDoes compares the interpreter here with that of miniredis.
func TestScriptsDoWhatMiniredisDoes(t *testing.T) {
	texts := []string{
		`return redis.call('GET', KEYS[1])`,
		`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`,
		`return {redis.call('PEXPIRE', KEYS[1], ARGV[2]), redis.call('PTTL', KEYS[1]), 'x', false, 3.7}`,
		`return redis.call('DEL', KEYS[1]) == 1`,
		`redis.call('RPUSH', KEYS[1], 'a', 'b') return redis.call('LRANGE', KEYS[1], 0, -1)`,
		`local r = redis.pcall('GET', KEYS[1]) return type(r) == 'table' and r.err or r`,
		`return {ok = 'fine'}`,
		`return #KEYS + #ARGV`,
		`return nil`,
		`return {redis.call('ZADD', 'z', 'NX', '946689062110233', 'a'), redis.call('ZADD', 'z', 'NX', 0, 'b'), redis.call('ZPOPMIN', 'z')}`,
		`return {#redis.pcall('ZPOPMIN', 'z'), redis.pcall('ZREM', 'z', 'a'), redis.pcall('PUBLISH', 'nobody', 'x')}`,
		`return string.format('%.0f', '946689062' * 1000000 + '110233')`,
	}
	inBubble(t, 0, func(b *bench) {
		for _, text := range texts {
			sha, err := b.client.ScriptLoad(b.Context(), text).Result()
			require.NoError(b, err)
			for _, value := range []string{"", "v"} {
				var replies [2]string
				for i, run := range []func(context.Context, string, []string, ...any) *redis.Cmd{
					b.client.Eval, func(ctx context.Context, _ string, keys []string, args ...any) *redis.Cmd {
						return b.client.EvalSha(ctx, sha, keys, args...)
					},
				} {
					b.client.FlushAll(b.Context())
					if value != "" {
						b.client.Set(b.Context(), "k", value, time.Minute)
					}
					reply, err := run(b.Context(), text, []string{"k"}, "w", 5000).Result()
					replies[i] = fmt.Sprint(reply, err != nil, b.client.PTTL(b.Context(), "k").Val())
				}
				require.Equal(b, replies[0], replies[1], text)
			}
		}
		require.ErrorContains(b, b.client.EvalSha(b.Context(), "none", nil).Err(), "NOSCRIPT")
		b.node.flushScripts()
		require.ErrorContains(b, b.client.EvalSha(b.Context(), "none", nil).Err(), "NOSCRIPT")
	})
}
