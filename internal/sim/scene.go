package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// scene is one key of the finale and all that wait for it.
type scene struct {
	*finale
	hands   *handOvers
	asked   int
	longest time.Duration // that all of it may take
	waiting sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

func (f *finale) scene(key string) *scene {
	s := &scene{finale: f, hands: &handOvers{check: f.check, key: key, limit: f.limit()}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	f.check.plays(s.hands)
	return s
}

func (s *scene) asks(l *locker) *operation {
	o := s.check.asks(fmt.Sprintf("%s-%s%d", l.name(), s.hands.key, s.asked), s.hands.key)
	s.asked++
	return o
}

// hold gives a locker the key, which nobody has or waits for.
func (s *scene) hold(l *locker) *operation {
	o := s.asks(l)
	s.hands.frees(time.Now(), false)
	if !s.get(s.ctx, l, o, redlock.AutoRenew()) {
		s.hands.nobody()
	}
	time.Sleep(2 * s.way) // for the others to answer too
	return o
}

// waits makes a locker wait for the key, hold it and release it, several times; it may forget to do
// that the last time. giveUp ends the waiting.
func (s *scene) waits(l *locker, times int, hold time.Duration, forgets bool) (giveUp func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var turns []*operation
	for range times {
		turns = append(turns, s.asks(l))
		s.longest += s.limit() + hold
	}
	if forgets {
		s.longest += 2 * s.ttl
	}
	s.waiting.Go(func() {
		for i, o := range turns {
			forgets := forgets && i == times-1
			options := []redlock.AcquireOption{redlock.Wait(0)}
			if !forgets {
				options = append(options, redlock.AutoRenew())
			}
			if !s.get(ctx, l, o, options...) {
				return
			}
			time.Sleep(hold)
			if forgets {
				s.forget(o)
				return
			}
			s.pass(o)
		}
	})
	return cancel
}

func (s *scene) get(ctx context.Context, l *locker, o *operation, options ...redlock.AcquireOption) bool {
	s.log.add(o.name, "waits for %s", s.hands.key)
	lock, err := l.current.Acquire(ctx, s.hands.key, s.ttl, append(options, redlock.Owner(o.name))...)
	s.check.gets(o, lock)
	if err != nil {
		s.log.add(o.name, "gets nothing: %v", err)
		return false
	}
	s.hands.takes(o, l.id)
	s.log.add(o.name, "holds %s, on %d nodes, fence %d", s.hands.key, lock.Nodes(), lock.Fence())
	return true
}

// pass releases the lock; if there is none, the scene has failed before.
func (s *scene) pass(o *operation) {
	if o.lock != nil {
		s.hands.frees(time.Now(), true)
		s.calls.release(o)
	}
}

// forget leaves the key to its ttl, which the node with the slowest clock is the last to end.
func (s *scene) forget(o *operation) {
	s.log.add(o.name, "forgets its lock")
	s.hands.frees(time.Now().Add(s.ttl*1_000_000/(1_000_000-maxRate)), false)
}

// finish waits until all have had the key.
func (s *scene) finish() {
	finished := make(chan struct{})
	go func() {
		s.waiting.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(s.longest):
		s.hands.nobody()
	}
	s.cancel()
	<-finished
	s.hands.judge()
}

// mourns allows for a locker that was cut off for good just when it had taken the key on a node, in an attempt that
// it cannot undo any more: there the key lives out its ttl.
func (s *scene) mourns(dead *locker) {
	if slices.ContainsFunc(s.nodes, func(n *node) bool {
		return strings.HasPrefix(owner(n.value(s.hands.key)), fmt.Sprintf("c%d.", dead.id))
	}) {
		s.hands.limit += 2 * s.ttl
		s.longest += 2 * s.ttl
		s.hands.usual = 0
	}
}
