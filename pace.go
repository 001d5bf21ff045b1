package redlock

import (
	"context"
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// pace spreads the attempts of one Acquire over the time it may wait.
type pace struct {
	bounded bool
	end     clock.Instant
	slack   time.Duration // how much longer than end to sleep at last: where ctx will end it
	final   bool
}

func (l *Locker) newPace(ctx context.Context, q request, begin clock.Instant) *pace {
	p := &pace{}
	wait := l.cfg.wait
	if q.waitSet {
		wait = q.wait
	}
	deadline, hasDeadline := ctx.Deadline()
	if wait > 0 && (q.waitSet || !hasDeadline) {
		p.bounded, p.end = true, begin.Add(wait)
	}
	if hasDeadline {
		end := begin.Add(time.Until(deadline))
		if !p.bounded || p.end.Since(end) > 0 {
			p.bounded, p.end, p.slack = true, end, time.Second
		}
	}
	return p
}

// fit returns the delay before the next attempt, or, when over, before giving up. What is
// left at the end is not slept away: one last attempt is made at a random moment of it. When nothing is left
// it is over, whatever the delay.
func (p *pace) fit(delay time.Duration, now clock.Instant, random float64) (fitted time.Duration, over bool) {
	delay = max(0, delay)
	if !p.bounded {
		return delay, false
	}
	left := max(0, p.end.Left(now))
	switch {
	case delay < left && !p.final:
		return delay, false
	case left > 0 && !p.final:
		p.final = true
		return time.Duration(random * float64(left)), false
	default:
		return p.rest(now), true
	}
}

// rest returns how long to sleep at most before giving up.
func (p *pace) rest(now clock.Instant) time.Duration {
	return min(max(0, p.end.Left(now)), math.MaxInt64-p.slack) + p.slack
}

func (p *pace) isOver(now clock.Instant) bool { return p.bounded && p.end.Over(now) }

// pause returns the delay after an attempt that was lost, and whether the call is over then. stranger is how long
// the holder has been there if no release of its will wake anybody, or notForeign.
func (w *waiter) pause(
	f *QuorumError, moved, hears bool, stranger time.Duration, now clock.Instant, random func() float64,
) (delay time.Duration, over bool) {
	delay = w.retries.next(f, moved, hears, w.cfg.backoffBase, w.cfg.backoffMax, random())
	if stranger != notForeign {
		delay = min(delay, foreignPoll(stranger, random()))
	}
	return w.pace.fit(delay, now, random())
}
