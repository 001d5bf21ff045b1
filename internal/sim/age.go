package sim

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// withFenceLife is to be redlock.WithFenceLife once there is such an option; until then no run ages.
var withFenceLife func(time.Duration) redlock.Option

// ageing is a run at the end of which numbers come to the end of their lives, while the time of day of
// one locker is ahead.
type ageing struct {
	life time.Duration // of numbers; much more than the clocks are ever wrong, apart from …
	lead time.Duration // … that of one locker
	wait time.Duration // between two grants, the second of them with a clock that is right
}

// age gives a key to lockers, one after the other, with much time between.
func (w *world) age(c *calls) {
	a := w.plan.ageing
	if a.life == 0 {
		return
	}
	for _, l := range w.lockers {
		c.bounded(l.name(), "close", 4*w.plan.timeout(), l.close) // it may still renew a lock, which would take all the time
		time.Sleep(time.Millisecond)
		l.reopen()
		l.machine.set(time.Since(l.machine.Today()))
	}
	time.Sleep(stretched(w.plan.window(), w.plan.lag()) + time.Second) // for the guard
	rng := stream(w.plan.seed, "age")
	for i := range 4 {
		l := w.lockers[rng.IntN(w.plan.lockers)]
		if i == 0 {
			w.log.add("age", "the time of day of client %d is %v ahead", l.id, a.lead)
			l.machine.set(a.lead)
			defer l.machine.set(-a.lead)
		}
		for try := range 3 { // its connections may have broken long ago
			o := c.try(l, fmt.Sprintf("age%d.%d", i, try), "age", w.plan.ttl)
			if o != nil {
				time.Sleep(4 * l.way())
				c.release(o)
				break
			}
			time.Sleep(w.plan.timeout())
		}
		time.Sleep(a.wait)
	}
}
