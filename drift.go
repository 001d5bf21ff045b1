package redlock

import (
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

const (
	minTTL = 10 * time.Millisecond // below this, drift and one round trip leave nothing to hold
	maxTTL = 366 * 24 * time.Hour  // a lease is not a record; also keeps the sums here far from overflow
)

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
func (d drift) until(start clock.Instant, ttl time.Duration) clock.Instant {
	return start.Add(ttl - d.allowance(ttl))
}

// wholeMillis rounds ttl down to what the wire can carry.
func wholeMillis(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) }

// nodeTimeoutFor bounds one round by a quarter of the ttl, so that a slow node cannot eat
// the validity that the quick ones have granted.
func nodeTimeoutFor(timeout, ttl time.Duration) time.Duration { return min(timeout, ttl/4) }

// renewalDelay returns how long after the start of its last round a lock renews itself: ttl/2, or up
// to a fifth of that earlier by random in [0, 1), so that locks do not stay in step.
func renewalDelay(ttl time.Duration, random float64) time.Duration {
	return ttl/2 - time.Duration(random*float64(ttl/10))
}

// backoff returns the delay before retry number n (from 0): full jitter, that is
// random × min(limit, base × 2ⁿ), with random in [0, 1).
func backoff(base, limit time.Duration, n int, random float64) time.Duration {
	ceiling := limit
	if base <= limit>>n { // then base << n cannot overflow
		ceiling = base << n
	}
	return time.Duration(random * float64(ceiling))
}
