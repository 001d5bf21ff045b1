package sim

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// wake runs what the library's scripts do to wake a waiter, and returns how many have heard.
func (b *bench) wake(channel string) int64 {
	sha, err := b.client.ScriptLoad(b.Context(), `return redis.pcall('PUBLISH', ARGV[1], 'k')`).Result()
	require.NoError(b, err)
	heard, err := b.client.EvalSha(b.Context(), sha, nil, channel).Int64()
	require.NoError(b, err)
	return heard
}

func (b *bench) publish(channel string) int {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	return b.node.publish(channel, "k")
}

func TestASubscriberHearsWhatScriptsPublish(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		require.Zero(b, b.wake("a"))
		sub := b.client.Subscribe(b.Context(), "a")
		defer sub.Close()
		_, err := sub.Receive(b.Context())
		require.NoError(b, err)
		require.EqualValues(b, 1, b.wake("a"))
		require.Zero(b, b.wake("b"))
		message, err := sub.ReceiveMessage(b.Context())
		require.NoError(b, err)
		require.Equal(b, "k", message.Payload)
		require.NoError(b, sub.Ping(b.Context()))
		reply, err := sub.ReceiveTimeout(b.Context(), time.Second)
		require.NoError(b, err)
		require.IsType(b, &redis.Pong{}, reply)
	})
}

func TestOnlyABrokenConnectionEndsASubscription(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		sub := b.client.Subscribe(b.Context(), "a")
		defer sub.Close()
		_, err := sub.Receive(b.Context())
		require.NoError(b, err)
		b.wire.up.block()
		require.Equal(b, 1, b.publish("a"), "nobody has told the node that its subscriber is gone")
		b.wire.up.unblock(time.Millisecond)
		b.node.breakConnections()
		require.Zero(b, b.publish("a"))
	})
}
