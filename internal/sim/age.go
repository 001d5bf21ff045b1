package sim

import (
	"fmt"
	"time"
)

// ageing is a run at the end of which numbers come to the end of their lives, while the time of day of
// one locker is ahead.
type ageing struct {
	life time.Duration // of numbers; much more than the clocks are ever wrong, apart from …
	lead time.Duration // … that of one locker
	wait time.Duration // between two grants, the second of them with a clock that is right
}

// age gives a key to lockers, one after the other, with much time between. All begin anew, since somebody may
// still renew a lock, which would take all the time; and those who are too far from the nodes, and ask again
// and again whether they answer, not at all.
func (f *finale) age() {
	a, c := f.plan.ageing, f.calls
	if a.life == 0 || len(f.cast) == 0 {
		return
	}
	for _, l := range f.lockers {
		c.bounded(l.name(), "close", 4*f.plan.timeout(), l.close)
		l.machine.set(time.Since(l.machine.Today()))
		time.Sleep(time.Millisecond)
	}
	rng := stream(f.plan.seed, "age")
	for i := range 4 {
		l := f.cast[rng.IntN(len(f.cast))]
		l.reopen()                                                         // only now, since an open locker asks idle nodes something all the time
		time.Sleep(stretched(f.plan.window(), f.plan.lag()) + time.Second) // for the guard
		if i == 0 {
			f.log.add("age", "the time of day of client %d is %v ahead", l.id, a.lead)
			l.machine.set(a.lead)
			defer l.machine.set(-a.lead)
		}
		for try := range 3 { // its connections may have broken long ago
			o := c.try(l, fmt.Sprintf("age%d.%d", i, try), "age", f.plan.ttl)
			if o != nil {
				time.Sleep(4 * l.way())
				c.release(o)
				break
			}
			time.Sleep(f.plan.timeout())
		}
		c.bounded(l.name(), "close", 4*f.plan.timeout(), l.close)
		time.Sleep(a.wait)
	}
	for _, l := range f.cast {
		l.reopen()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(stretched(f.plan.window(), f.plan.lag()) + time.Second)
}
