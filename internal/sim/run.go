package sim

import (
	"fmt"
	"sync"
	"time"
)

// Result is what came of a run.
type Result struct {
	Violations []Violation
	Lasted     time.Duration // virtual
	Grants     int
	log        *eventLog
}

// Log returns all that happened, in true time, one event a line.
func (r *Result) Log() string { return r.log.String() }

// Digest is equal for runs with equal logs.
func (r *Result) Digest() string { return digest(r.Log()) }

// Run makes the run that a seed stands for. It must be called in a bubble of testing/synctest,
// and starts and ends all its goroutines itself.
func Run(seed uint64, s Settings) *Result {
	p := newPlan(seed)
	// The jitter of the library is drawn from the time of day: give each seed its own.
	time.Sleep(time.Duration(stream(seed, "dawn").Int64N(int64(time.Hour))))
	w := newWorld(p, s)
	w.log.add("seed", "%d: %+v", seed, p)
	c := &calls{check: w.check, open: make(map[string]string)}
	weather := &weather{world: w, rng: stream(seed, "weather")}
	for _, l := range w.lockers {
		l.open()
	}
	weather.starts = w.maintain(c)
	var background sync.WaitGroup
	background.Go(weather.run)

	w.act(c, weather)
	weather.clearUp()
	w.settle()
	f := w.finale(c)
	f.age()
	w.end(c, f.play())
	for _, n := range w.nodes {
		n.close()
	}
	c.watchers.Wait()
	background.Wait()
	return w.result()
}

// act runs the actors until all are done.
func (w *world) act(c *calls, weather *weather) {
	var acting sync.WaitGroup
	for _, l := range w.lockers {
		for i := range w.plan.actors {
			name := fmt.Sprintf("actor %d-%d", l.id, i)
			a := &actor{locker: l, id: i, rng: stream(w.plan.seed, name), calls: c, weather: weather}
			acting.Go(a.run)
		}
	}
	finished := make(chan struct{})
	go func() {
		acting.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(w.plan.longest()):
		panic(fmt.Sprintf("seed %d: %s: these calls do not come back: %v", w.plan.seed, CallsReturn, c.underWay()))
	}
}

// settle waits until everything owed must have been paid, and looks at what is left.
func (w *world) settle() {
	time.Sleep(w.plan.settling())
	for _, n := range w.nodes {
		for i := range w.plan.keys {
			key := fmt.Sprintf("key%d", i)
			if token := n.value(key); token != "" {
				w.log.add(n.name, "still has %q for %s", key, owner(token))
				w.check.leftover(n, key, token)
			}
		}
	}
}

// end closes all lockers. A minute later nobody has left a trace in a waiting list, not even who is dead.
func (w *world) end(c *calls, dead *locker) {
	for _, l := range w.lockers {
		if l != dead {
			c.bounded(l.name(), "close", 4*w.plan.timeout(), l.close)
		}
	}
	time.Sleep(time.Minute)
	for _, n := range w.nodes {
		for _, list := range n.waitingLists() {
			w.check.remains(n, list)
		}
	}
	if dead != nil {
		w.eachLink(dead.id, anyone, func(l *link) { l.unblock(time.Second) })
		c.bounded(dead.name(), "close", 4*w.plan.timeout(), dead.close)
		time.Sleep(time.Second + w.plan.clientTimeout()) // for what its clients have begun
	}
}

func (w *world) result() *Result {
	r := &Result{Violations: w.check.violations, Lasted: time.Since(w.log.begin), log: w.log}
	for _, o := range w.check.operations {
		if o.lock != nil {
			r.Grants++
		}
	}
	return r
}
