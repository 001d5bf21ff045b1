package clock

import (
	"math"
	"time"
)

// Instant is a moment on the suspend-aware clock. The zero Instant is long ago.
type Instant struct {
	at    time.Time     // by Go's monotonic clock
	slept time.Duration // what that clock has missed up to then, counted from some fixed moment
}

// Now reads the clock.
func Now() Instant {
	now := time.Now()
	return Instant{at: now, slept: missed(now)}
}

// At makes the Instant of a clock that a test or a simulator keeps: at is what its monotonic clock
// shows, slept the time that this one has missed in suspensions so far.
func At(at time.Time, slept time.Duration) Instant { return Instant{at: at, slept: slept} }

// Time returns the moment as Go's clock shows it, for people and for timers.
func (t Instant) Time() time.Time { return t.at }

// Add returns the moment d later.
func (t Instant) Add(d time.Duration) Instant {
	t.at = t.at.Add(d)
	return t
}

// Since returns the time from u to t, suspensions included. It saturates.
func (t Instant) Since(u Instant) time.Duration { return sum(t.at.Sub(u.at), t.slept-u.slept) }

// Ago returns how long ago u was at least, at t: without suspensions. Where these can only be
// estimated (see the package comment) Since may be too long, and Ago is not.
func (t Instant) Ago(u Instant) time.Duration { return t.at.Sub(u.at) }

// Left returns the time from now to t, negative when t is over.
func (t Instant) Left(now Instant) time.Duration { return -max(now.Since(t), -math.MaxInt64) }

// Over reports whether t has been reached at now.
func (t Instant) Over(now Instant) bool { return now.Since(t) >= 0 }

// Earlier returns the one of the two that is reached first.
func Earlier(t, u Instant) Instant {
	if t.Since(u) > 0 {
		return u
	}
	return t
}

// sum adds without overflow.
func sum(a, b time.Duration) time.Duration {
	switch s := a + b; {
	case b > 0 && s < a:
		return math.MaxInt64
	case b < 0 && s > a:
		return math.MinInt64
	default:
		return s
	}
}
