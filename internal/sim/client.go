package sim

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// counting is whether a client lets the library count its connections.
type counting int

const (
	counted counting = iota
	cloned           // by WithTimeout: no dial passes its hooks
	wrapped          // it keeps its hooks to itself
)

// wrapper is a client that others do not see through.
type wrapper struct{ redis.UniversalClient }

func (wrapper) AddHook(redis.Hook) {}

// client makes a client for a node, tuned as Open would do it, or, where the plan says so,
// with long timeouts and retries of its own.
//
// Open gives its clients the node timeout. Here each has a slightly shorter one: where the
// deadlines of several workers and of a round fall on one instant, their order is random.
func (l *locker) client(i int) redis.UniversalClient {
	timeout := l.plan.clientTimeout() - time.Duration(1+l.id*maxNodes+i)*50*time.Microsecond
	o := &redis.Options{
		Addr: l.address(i),
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			on, life := commands, ctx
			if _, ok := ctx.Deadline(); !ok { // the pool gives it one, a subscription has to see to that itself
				limited, cancel := context.WithTimeout(ctx, timeout-25*time.Microsecond)
				defer cancel()
				on, ctx = wakeUps, limited
			}
			c, err := l.wires[l.id][i].dial(ctx, l.nodes[i], l.id, on)
			if err != nil {
				return failedConn{err: err}, nil
			}
			if on == wakeUps && l.plan.uncounted[l.id] != counted {
				// The library closes the subscription when its locker ends. That would wait for the greeting, on a
				// mutex, which stops the virtual time. With counted clients it closes the connection too.
				context.AfterFunc(life, func() { _ = c.Close() })
			}
			return c, nil
		},
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize:                 4, PipelinePoolSize: -1,
		ReadBufferSize: 4 << 10, WriteBufferSize: 32 << 10, // all scripts in one message: pieces of one could overtake each other
	}
	if l.plan.lazy > 0 {
		o.ContextTimeoutEnabled = false
		// Who waits for a place in the pool uses a timer that go-redis shares between all clients of
		// the process, and so between bubbles, which ends the process.
		o.PoolSize = 64
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 1, -1, -1 // at once: a delay would be random
	}
	c := redis.NewClient(o)
	switch l.plan.uncounted[l.id] {
	case cloned:
		return c.WithTimeout(timeout)
	case wrapped:
		return wrapper{c}
	}
	return c
}
