package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	releaseLimit = 5 * time.Second       // ends a release that does not come back
	failurePause = 10 * time.Millisecond // keeps a library that fails at once from filling the time with failures
)

// A contest is one key that contenders want again and again.
type contest struct {
	key    string
	length time.Duration // the most it takes
	quota  int           // grants after which a contender leaves; 0: none leaves before the end
	atEnd  func()        // called once at the end, while whoever waits goes on waiting; may be nil

	ends       time.Time
	inside     atomic.Int64 // holders; more than one is a violation
	violations atomic.Int64
}

// A contender is one goroutine in a contest.
type contender struct {
	acquire  func(ctx context.Context, key string) (held, error)
	attempts bool // acquire does not wait: being refused is no failure
	work     time.Duration
	pause    time.Duration // after each release
}

// waits makes a contender that waits on w.
func waits(w waiter, work, pause time.Duration) contender {
	return contender{acquire: w.wait, work: work, pause: pause}
}

// served is what one contender got.
type served struct {
	grants  int
	refused int // attempts
	failed  int
	longest time.Duration // between wanting the key and having it, or the end
	failure error         // one of the failed
}

// outcome is what all contenders got, in their order.
type outcome struct {
	served     []served
	violations int
	took       time.Duration
}

// run returns once every contender is back: soon after the end where a library heeds its ctx. The end cancels ctx
// and is no deadline of it, because a library may act on a deadline that is near.
func (c *contest) run(ctx context.Context, contenders []contender) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group sync.WaitGroup
		o     = outcome{served: make([]served, len(contenders))}
		start = time.Now()
	)
	c.ends = start.Add(c.length)
	end := sync.OnceFunc(func() {
		o.took = time.Since(start)
		if c.atEnd != nil {
			c.atEnd()
		}
		cancel()
	})
	timer := time.AfterFunc(c.length, end)
	defer timer.Stop()
	for i, one := range contenders {
		group.Go(func() { c.contend(ctx, one, &o.served[i]) })
	}
	group.Wait()
	end()
	o.violations = int(c.violations.Load())
	return o
}

// contend wants the key until the end or the quota. A wait that a failure or the end cuts short counts as well:
// otherwise the contender who never got the key would have waited least.
func (c *contest) contend(ctx context.Context, one contender, s *served) {
	since := time.Now()
	for ctx.Err() == nil {
		lock, err := one.acquire(ctx, c.key)
		s.waited(c.upToEnd(since))
		switch {
		case err == nil:
			c.hold(ctx, one, lock, s)
			if c.quota > 0 && s.grants >= c.quota {
				return
			}
			if one.pause > 0 {
				sleep(ctx, one.pause)
			}
			since = time.Now()
		case ctx.Err() != nil:
		case one.attempts && errors.Is(err, redlock.ErrHeld):
			s.refused++
		default:
			s.fail(err)
			sleep(ctx, failurePause)
		}
	}
}

// hold works and releases. A grant after the end does not count, but the key is given back.
func (c *contest) hold(ctx context.Context, one contender, lock held, s *served) {
	if time.Now().Before(c.ends) {
		s.grants++
	}
	if c.inside.Add(1) > 1 {
		c.violations.Add(1)
	}
	time.Sleep(one.work)
	c.inside.Add(-1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		s.fail(err)
	}
}

func (c *contest) upToEnd(since time.Time) time.Duration {
	now := time.Now()
	if now.After(c.ends) {
		now = c.ends
	}
	return now.Sub(since)
}

func (s *served) waited(d time.Duration) { s.longest = max(s.longest, d) }

func (s *served) fail(err error) {
	s.failed++
	s.failure = err
}
