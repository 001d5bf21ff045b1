package main

import (
	"slices"
	"time"
)

// A delayed byte can be due at any time, so the metronome then ticks on and on. Ten thousand wake-ups take half
// of a core; with fewer a proxy delays longer than it should by a good part of a local round trip.
const metronomeEvery = 100 * time.Microsecond

// metronomeAfter makes sure that the timer of a start has come before the wake-up for it.
const metronomeAfter = 5 * time.Microsecond

// preciseTimers starts the metronome if figures depend on when timers of this process go off.
func preciseTimers(s settings, l *load) (stop func(), err error) {
	switch {
	case s.delays():
		return startMetronome(func() time.Time { return time.Now().Add(metronomeEvery) })
	case s.rate > 0:
		return startMetronome(func() time.Time { return l.schedule.nextTick(time.Now()) })
	}
	return func() {}, nil
}

// nextTick is when the metronome is to tick next: with the next start, and no more often than it does anyway.
func (s schedule) nextTick(now time.Time) time.Time {
	next := s.after(now).Add(metronomeAfter)
	if soonest := now.Add(metronomeEvery); next.Before(soonest) && s.rate > int(time.Second/metronomeEvery) {
		return soonest
	}
	return next
}

// delays reports whether a proxy is to hold back bytes for a time.
func (s settings) delays() bool {
	return slices.ContainsFunc(s.rtts, func(d time.Duration) bool { return d > 0 }) ||
		slices.ContainsFunc(s.faults, func(f fault) bool { return f.delay > 0 })
}
