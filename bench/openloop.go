package main

import (
	"context"
	"time"
)

// openCaller takes one scheduled start after the other, those that are overdue first, until the time is
// over or ctx ends. It never pauses after a failure: the schedule says when the next cycle begins.
func (l *load) openCaller(ctx context.Context, r *recorder, keys []string) {
	for turn := 0; ctx.Err() == nil && time.Now().Before(l.until); turn++ {
		n := l.next.Add(1) - 1
		if n >= l.schedule.total {
			return
		}
		due := l.schedule.at(n)
		pause(ctx, time.Until(due))
		now := time.Now()
		if late := now.Sub(due) > lateAfter; late && (ctx.Err() != nil || !now.Before(l.until)) {
			l.skip(r, due, now)
			return
		}
		if ctx.Err() != nil { // it came first
			return
		}
		if !due.Before(l.from) {
			r.starts.note(now.Sub(due))
		}
		l.cycle(ctx, r, keys[turn%len(keys)], due)
	}
}

// skip records a cycle that was due and never started, with the time that it had waited by then.
func (l *load) skip(r *recorder, due, now time.Time) {
	if due.Before(l.from) {
		return
	}
	r.starts.Scheduled++
	r.starts.NotStarted++
	r.note(acquire, now.Sub(due), errNotStarted)
	r.track.note(due.Sub(l.from), 0, true)
}

// skipRest records what was due by the end, which an interruption may have brought on, and was taken by no
// caller. To be called when all of them are done.
func (l *load) skipRest(end time.Time) {
	rest := newRecorder(l.until.Sub(l.from)) // of its own, as tracks go forward in time alone
	for n := l.next.Load(); n < l.schedule.total && l.schedule.at(n).Before(end); n++ {
		l.skip(rest, l.schedule.at(n), end)
	}
	l.callers = append(l.callers, rest)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
