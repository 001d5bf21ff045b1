package node

import (
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

const (
	beatPeriod = 10 * time.Millisecond // of the timer that notices how late timers are
	beatSlack  = 3 * time.Millisecond  // a timer may be so late on a healthy machine
)

// Pulse is a clock that stands still while this process does. A process that was stopped, throttled or
// starved must not blame a server for the silence, so limits for servers are measured by it. It beats
// while calls are under way, and a beat that comes late shows the time that was lost.
type Pulse struct {
	clock func() clock.Instant
	base  clock.Instant
	keep  time.Duration // how long it goes on beating after the last call

	state atomic.Pointer[beat]
	until atomic.Int64 // when to stop beating, since base
	armed atomic.Bool
}

// beat is what is known at one beat, in time since base.
type beat struct {
	due  time.Duration // of the next one; 0: there is none
	lost time.Duration // by this process, until now
}

// NewPulse returns a Pulse for calls that take no longer than limit.
func NewPulse(now func() clock.Instant, limit time.Duration) *Pulse {
	p := &Pulse{clock: now, base: now(), keep: max(time.Second, 2*limit)}
	p.state.Store(&beat{})
	return p
}

// Now returns how long this process has run since the Pulse was made, as far as it beat.
func (p *Pulse) Now() time.Duration { return p.At(p.clock()) }

// At is Now for an instant that was read just before.
func (p *Pulse) At(now clock.Instant) time.Duration {
	elapsed := now.Since(p.base)
	b := p.state.Load()
	return elapsed - b.lost - b.late(elapsed)
}

// late returns the time that was lost since the beat.
func (b *beat) late(elapsed time.Duration) time.Duration {
	if b.due == 0 || elapsed-b.due < beatSlack {
		return 0
	}
	return elapsed - b.due
}

// touch keeps the pulse beating for a while.
func (p *Pulse) touch(now clock.Instant) {
	until := int64(now.Since(p.base) + p.keep)
	if until-p.until.Load() > int64(p.keep/4) {
		p.until.Store(until)
	}
	if !p.armed.Load() && p.armed.CompareAndSwap(false, true) {
		p.arm(p.state.Load().lost)
	}
}

func (p *Pulse) arm(lost time.Duration) {
	p.state.Store(&beat{due: p.clock().Since(p.base) + beatPeriod, lost: lost})
	time.AfterFunc(beatPeriod, p.beat)
}

func (p *Pulse) beat() {
	b, elapsed := p.state.Load(), p.clock().Since(p.base)
	lost := b.lost + b.late(elapsed)
	if int64(elapsed) < p.until.Load() {
		p.arm(lost)
		return
	}
	p.state.Store(&beat{lost: lost})
	p.armed.Store(false)
	if int64(elapsed) < p.until.Load() && p.armed.CompareAndSwap(false, true) {
		p.arm(lost) // touched just now
	}
}
