package redlock

import (
	"context"
	"math/rand/v2"
	"time"
)

// Acquire locks key for ttl as TryAcquire does, but waits while it cannot be had: it tries
// again after delays with full jitter (WithBackoff) until ctx's deadline. Where ctx has none,
// it waits for the limit of WithWait, 750 ms by default: a forgotten deadline must not wait
// for ever. Wait overrides that limit for one call, and then holds beside a deadline too. An
// attempt under way when the limit passes is finished, so Acquire may take a node timeout
// longer than it; the end of ctx ends it at once.
//
// Errors are those of TryAcquire: the last attempt's reason, with ctx's error beside it where
// ctx ended the waiting, and the time waited in Elapsed.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	q, err := l.newRequest(key, ttl, opts)
	if err != nil {
		return nil, err
	}
	begin := l.clock()
	pace := l.newPace(ctx, q, begin)
	var last *QuorumError
	for {
		k, failure := l.attempt(ctx, q)
		if failure == nil {
			return k, nil
		}
		cause := ctx.Err()
		if last == nil || cause == nil { // one that ctx cut short knows less than the one before it
			last = failure
		}
		delay, over := pace.next(l.clock(), rand.Float64())
		if cause == nil {
			if l.observer.trace.Waiting != nil {
				l.observer.trace.Waiting(q.key, pace.retries, delay)
			}
			cause = l.sleep(ctx, delay)
		}
		if over || cause != nil {
			return nil, last.after(l.clock().since(begin), cause)
		}
	}
}

// sleep returns nil after d, or sooner the reason to stop waiting.
func (l *Locker) sleep(ctx context.Context, d time.Duration) error {
	l.observer.waiting.Add(1)
	defer l.observer.waiting.Add(-1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrClosed
	}
}

// pace spreads the attempts of one Acquire over the time it may wait.
type pace struct {
	base, limit time.Duration
	retries     int
	bounded     bool
	end         instant
	slack       time.Duration // how much longer than end to sleep at last: where ctx will end it
	final       bool
}

func (l *Locker) newPace(ctx context.Context, q request, begin instant) *pace {
	p := &pace{base: l.cfg.backoffBase, limit: l.cfg.backoffMax}
	wait := l.cfg.wait
	if q.waitSet {
		wait = q.wait
	}
	deadline, hasDeadline := ctx.Deadline()
	if wait > 0 && (q.waitSet || !hasDeadline) {
		p.bounded, p.end = true, begin.add(wait)
	}
	if hasDeadline {
		end := begin.add(deadline.Sub(begin.at))
		if !p.bounded || end.at.Before(p.end.at) {
			p.bounded, p.end, p.slack = true, end, time.Second
		}
	}
	return p
}

// next returns the delay before the next attempt, or, when over, before giving up. What is
// left at the end is not slept away: one last attempt is made at a random moment of it.
func (p *pace) next(now instant, random float64) (delay time.Duration, over bool) {
	delay = backoff(p.base, p.limit, p.retries, random)
	p.retries++
	if !p.bounded {
		return delay, false
	}
	left := max(0, p.end.left(now))
	switch {
	case delay < left && !p.final:
		return delay, false
	case left > 0 && !p.final:
		p.final = true
		return delay % left, false // as random within left as delay was beyond it
	default:
		return left + p.slack, true
	}
}
