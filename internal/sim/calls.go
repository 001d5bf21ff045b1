package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// calls watches how long calls take.
type calls struct {
	check    *checker
	watchers sync.WaitGroup // of locks

	mu   sync.Mutex
	open map[string]string
}

// bounded runs a call that must come back within bound, by the slowest of the lockers' clocks. It takes no
// virtual time beyond what it waits for.
func (c *calls) bounded(who, what string, bound time.Duration, call func()) {
	c.mu.Lock()
	c.open[who] = what
	c.mu.Unlock()
	begin := time.Now()
	call()
	took := time.Since(begin)
	c.mu.Lock()
	delete(c.open, who)
	c.mu.Unlock()
	if bound = stretched(bound, c.check.plan.lag()); took > bound {
		c.check.late(who, what, took, bound)
	}
}

// release gives a lock back, in time.
func (c *calls) release(o *operation) {
	c.check.releases(o)
	c.check.log.add(o.name, "releases")
	var err error
	c.bounded(o.name, "release", c.check.plan.timeout(), func() { err = o.lock.Release(context.Background()) })
	c.check.log.add(o.name, "released: %v", err)
}

// try makes one attempt; nil if it gets nothing.
func (c *calls) try(l *locker, name, key string, ttl time.Duration, options ...redlock.AcquireOption) *operation {
	o := c.check.asks(fmt.Sprintf("%s-%s", l.name(), name), key)
	bound := 7 * l.plan.timeout() // six for a first contact
	if l.plan.fenced {            // for another round
		bound += l.plan.timeout()
	}
	l.log.add(o.name, "asks for %s", key)
	var lock *redlock.Lock
	var err error
	c.bounded(o.name, "try", bound, func() {
		lock, err = l.current.TryAcquire(context.Background(), key, ttl, append(options, redlock.Owner(o.name))...)
	})
	c.check.gets(o, lock)
	if err != nil {
		l.log.add(o.name, "gets nothing: %v", err)
		return nil
	}
	l.log.add(o.name, "holds %s for %v, on %d nodes, fence %d", key, lock.Validity(), lock.Nodes(), lock.Fence())
	return o
}

// underWay returns the calls that have not come back.
func (c *calls) underWay() (open []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for who, what := range c.open {
		open = append(open, who+": "+what)
	}
	slices.Sort(open)
	return open
}
