package jitter

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// Clocks are those of one machine.
type Clocks interface {
	Now() clock.Instant // elapsed time
	Today() time.Time   // the time of day
}

var machines sync.Map // by the owner's name of the machine's lockers: Clocks

// Keep makes c the clocks of all lockers with this owner.
func Keep(owner string, c Clocks) { machines.Store(owner, c) }

// Clock stands in for clock.Now.
func Clock(owner string) func() clock.Instant {
	if c, ok := machines.Load(owner); ok {
		return c.(Clocks).Now
	}
	return clock.Now
}

// Today stands in for time.Now where the time of day is wanted.
func Today(owner string) func() time.Time {
	if c, ok := machines.Load(owner); ok {
		return c.(Clocks).Today
	}
	return time.Now
}
