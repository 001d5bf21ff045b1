package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// listenPeriod is how long a connection may be silent before it is tested, or closed if nobody waits.
const listenPeriod = 3 * time.Second

// listener hears the wake-ups of a locker on one node, on one connection that is made for the
// first waiter there and closed when there has been none for a while. Nothing depends on it:
// who is not woken tries again after a back-off step.
type listener struct {
	node    *node
	ctx     context.Context // ends with the locker
	channel string
	wake    func(key string)
	missed  func() // wake-ups may have been lost

	mu      sync.Mutex
	waiters int
	hears   bool          // subscribed, as far as is known
	exited  chan struct{} // of the goroutine; nil when there is none
}

// join adds a waiter. The goroutine that it may need is started by spawn, which can refuse.
func (s *listener) join(spawn func(func() error) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters++
	if s.exited != nil {
		return
	}
	exited := make(chan struct{})
	if spawn(func() error { s.run(exited); return nil }) {
		s.exited = exited
	}
}

func (s *listener) quit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters--
}

func (s *listener) isHearing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hears
}

// running returns a channel that is closed when the goroutine has exited.
func (s *listener) running() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited == nil {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	return s.exited
}

// run subscribes, again and again, until nobody waits or the locker is closed.
func (s *listener) run(exited chan struct{}) {
	defer close(exited)
	for failures := 0; !s.isOver(); failures++ {
		if s.listen() {
			failures = 0
		}
		delay := time.NewTimer(probeDelay(failures+1, rand.Float64()))
		select {
		case <-delay.C:
		case <-s.ctx.Done():
			delay.Stop()
		}
	}
}

// isOver reports whether the goroutine should exit, and takes leave of it then.
func (s *listener) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters > 0 && s.ctx.Err() == nil {
		return false
	}
	s.exited = nil
	return true
}

// listen passes on wake-ups until the subscription fails or nobody waits. It reports whether it
// heard anything.
func (s *listener) listen() (heard bool) {
	sub := s.node.client.Subscribe(s.ctx, s.channel)
	defer sub.Close()
	// A read does not look at its ctx. Clients of Open and plain clients cut the connection themselves
	// (dialled), also in the middle of its greeting; with others this ends the read.
	defer context.AfterFunc(s.ctx, func() { _ = sub.Close() })()
	for tested := false; ; {
		message, err := sub.ReceiveTimeout(s.ctx, listenPeriod)
		if wait, ok := errors.AsType[net.Error](err); ok && wait.Timeout() && !tested && s.isHearing() {
			if s.isIdle() || sub.Ping(s.ctx) != nil {
				break
			}
			tested = true
			continue
		}
		if err != nil {
			break
		}
		heard, tested = true, false
		switch m := message.(type) {
		case *redis.Message:
			s.wake(m.Payload)
		case *redis.Subscription:
			s.hearing(true)
			s.missed() // while there was no subscription
		}
	}
	if s.hearing(false) {
		s.missed() // the node may be gone: look for another gate
	}
	return heard
}

func (s *listener) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiters == 0
}

// hearing notes whether the subscription stands, and returns whether it did.
func (s *listener) hearing(now bool) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.hears = s.hears, now
	return before
}

// subscribing is the key under which the ctx of a subscription has the life of its locker.
type subscribing struct{}

// dialled counts a new connection of a node's client. That of a subscription does not count, since it
// carries no votes: the node need not say who it is. But it is closed with the locker, as
// neither a read nor the client's greeting looks at a ctx.
func dialled(ctx context.Context, conn net.Conn, dials *atomic.Uint64) net.Conn {
	life, ok := ctx.Value(subscribing{}).(context.Context)
	if !ok {
		dials.Add(1)
		return conn
	}
	return subscription{conn, context.AfterFunc(life, func() { _ = conn.Close() })}
}

type subscription struct {
	net.Conn
	closed func() bool
}

func (c subscription) Close() error {
	c.closed()
	return c.Conn.Close()
}
