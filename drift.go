package redlock

import (
	"math"
	"time"
)

const (
	minTTL = 10 * time.Millisecond // below this, drift and one round trip leave nothing to hold
	maxTTL = 366 * 24 * time.Hour  // a lease is not a record; also keeps the sums here far from overflow
)

// instant is a moment as two clocks saw it: the monotonic one inside at, which stops
// while the machine is suspended, and the wall clock, which goes on but can be set.
type instant struct {
	at   time.Time
	wall time.Duration // since 1970
}

func systemClock() instant {
	now := time.Now()
	return instant{at: now, wall: time.Duration(now.UnixNano())}
}

func (t instant) add(d time.Duration) instant {
	return instant{at: t.at.Add(d), wall: t.wall + d}
}

// since returns the time from u to t: the larger of what the two clocks say. A suspended
// machine shows only on the wall clock; a wall clock that was set back shows on neither,
// since the monotonic one is then the larger.
func (t instant) since(u instant) time.Duration {
	return max(t.at.Sub(u.at), t.wall-u.wall)
}

// ago returns how long ago u was at least, at t. The monotonic clock can fall behind, in a
// suspended machine, but never run ahead.
func (t instant) ago(u instant) time.Duration { return t.at.Sub(u.at) }

// left returns the time from now to t, by the clock that leaves less of it.
func (t instant) left(now instant) time.Duration { return -now.since(t) }

// over reports whether t has been reached at now, by either clock.
func (t instant) over(now instant) bool { return t.left(now) <= 0 }

// earlier returns an instant that is over as soon as t or u is.
func earlier(t, u instant) instant {
	if u.at.Before(t.at) {
		t.at = u.at
	}
	t.wall = min(t.wall, u.wall)
	return t
}

// drift is the allowance for clocks of nodes and client that run at different rates, and
// for the grain of expiry on the nodes: factor × ttl + constant; and for the step by which this system's
// clock moves, since a reading may be late by one.
type drift struct {
	factor   float64
	constant time.Duration
	step     time.Duration
}

// allowance is rounded up to the nanosecond: rounding may cost validity, never add to it.
func (d drift) allowance(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.factor*float64(ttl))) + d.constant + d.step
}

// until returns the last instant of a lease of ttl whose first command was sent at start.
// With left it gives the validity of the Redlock description: ttl − elapsed − drift.
func (d drift) until(start instant, ttl time.Duration) instant {
	return start.add(ttl - d.allowance(ttl))
}

// wholeMillis rounds ttl down to what the wire can carry.
func wholeMillis(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) }

// nodeTimeoutFor bounds one round by a quarter of the ttl, so that a slow node cannot eat
// the validity that the quick ones have granted.
func nodeTimeoutFor(timeout, ttl time.Duration) time.Duration { return min(timeout, ttl/4) }

// backoff returns the delay before retry number n (from 0): full jitter, that is
// random × min(limit, base × 2ⁿ), with random in [0, 1).
func backoff(base, limit time.Duration, n int, random float64) time.Duration {
	ceiling := limit
	if base <= limit>>n { // then base << n cannot overflow
		ceiling = base << n
	}
	return time.Duration(random * float64(ceiling))
}
