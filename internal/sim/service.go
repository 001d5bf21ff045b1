package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// service is rolling maintenance: one locker holds a key while nodes are restarted empty, one after the other,
// or as near to each other as plan.spaced lets them. A rival that was there before, or begins meanwhile or
// afterwards, must not get the key.
type service struct {
	*world
	calls  *calls
	rng    *rand.Rand
	ttl    time.Duration
	holder *locker
	rival  *locker
	enters int // the rival is opened anew before this restart; -1: it was there from the start
	asked  int
}

// maintain plays it, until the restart guard trusts all nodes again. It returns when a node was last started.
func (w *world) maintain(c *calls) (last time.Time) {
	last = time.Now()
	if !w.plan.service || !w.settings.Amnesia {
		return last
	}
	s := &service{world: w, calls: c, rng: stream(w.plan.seed, "maintenance"), ttl: w.plan.longTTL}
	slowFirst := slices.SortedFunc(slices.Values(w.lockers), func(a, b *locker) int { return cmp.Compare(a.machine.ppm, b.machine.ppm) })
	s.holder, s.rival = slowFirst[0], slowFirst[len(slowFirst)-1]
	if chance(s.rng, 0.2) {
		s.holder, s.rival = s.rival, s.holder
	}
	s.enters = choose(s.rng, -1, -1, s.rng.IntN(w.plan.nodes), w.plan.nodes)
	held, ends := s.hold()
	last = s.restartAll(last)
	s.hope(ends)
	if held != nil {
		s.calls.release(held)
	}
	time.Sleep(time.Until(last.Add(stretched(w.plan.window(), w.plan.lag()))))
	for _, n := range w.nodes {
		n.keepTo(tellsAll)
	}
	return last
}

// hold takes the key for the holder; its validity ends then, if nothing is renewed.
func (s *service) hold() (held *operation, ends time.Time) {
	time.Sleep(s.plan.timeout()) // for first contacts
	var options []redlock.AcquireOption
	if chance(s.rng, 0.2) {
		options = append(options, redlock.AutoRenew())
	}
	begin := time.Now()
	for range 3 {
		if held = s.try(s.holder, "service", options...); held != nil {
			break
		}
		time.Sleep(s.plan.timeout())
		begin = time.Now()
	}
	return held, begin.Add(stretched(s.ttl*99/100-2*time.Millisecond, s.holder.machine.ppm))
}

// restartAll restarts all nodes, or a quorum.
func (s *service) restartAll(last time.Time) time.Time {
	secrecy := s.secrecy()
	if s.plan.spaced(s.settings) && s.plan.young {
		time.Sleep(time.Until(last.Add(s.plan.gap())))
	}
	for k, i := range s.rng.Perm(s.plan.nodes)[:choose(s.rng, s.plan.nodes, s.check.quorum)] {
		if k > 0 {
			time.Sleep(s.pause())
		}
		if k == s.enters {
			s.enter()
		}
		s.log.add("service", "node %d is restarted without its data; it tells of itself: %d", i, secrecy)
		s.nodes[i].crash(false)
		time.Sleep(time.Duration(1 + s.rng.Int64N(int64(time.Millisecond))))
		s.restart(i, false)
		s.nodes[i].keepTo(secrecy)
		last = time.Now()
		s.rivals() // it takes notice
	}
	if s.enters == s.plan.nodes {
		s.enter()
	}
	return last
}

// secrecy draws what nodes tell after their restart. Those that tell nothing to somebody who never knew
// them are trusted, so the rival must have known them all.
func (s *service) secrecy() secrecy {
	if s.enters >= 0 || chance(s.rng, 0.6) {
		return tellsAll
	}
	o := s.try(s.rival, "greeting")
	if o == nil {
		return tellsAll
	}
	time.Sleep(s.plan.clientTimeout())
	known := o.lock.Nodes() == s.plan.nodes
	s.calls.release(o)
	if !known {
		return tellsAll
	}
	return secrecy(s.rng.IntN(int(secrecies)))
}

// pause draws how long after one node the next is restarted.
func (s *service) pause() time.Duration {
	if gap := s.plan.gap(); s.plan.spaced(s.settings) {
		return gap + time.Duration(s.rng.Int64N(int64(gap/2)))
	}
	return choose(s.rng, time.Duration(s.rng.Int64N(int64(s.ttl/2000))), between(s.rng, time.Millisecond, s.ttl/10))
}

// enter makes the rival's process a new one.
func (s *service) enter() {
	s.calls.bounded(s.rival.name(), "close", 4*s.plan.timeout(), s.rival.close)
	time.Sleep(time.Millisecond)
	s.rival.reopen()
	time.Sleep(time.Duration(1 + s.rng.Int64N(int64(s.plan.timeout()))))
}

// hope makes the rival ask now and then, and most of all when the holder's validity comes to its end.
func (s *service) hope(ends time.Time) {
	for range 3 {
		if left := time.Until(ends); left > 0 && s.rivals() {
			return
		} else if left > 0 {
			time.Sleep(time.Duration(1 + s.rng.Int64N(int64(left/2))))
		}
	}
	step := s.ttl / 400
	time.Sleep(time.Until(ends.Add(-6 * step)))
	for range 8 {
		if s.rivals() {
			return
		}
		time.Sleep(step - time.Duration(s.rng.Int64N(int64(step/8))))
	}
}

// rivals reports whether the rival gets the key.
func (s *service) rivals() bool {
	o := s.try(s.rival, "service")
	if o == nil {
		time.Sleep(4 * s.rival.way()) // it may have found out that a node was restarted
		return false
	}
	s.calls.release(o)
	return true
}

func (s *service) try(l *locker, key string, options ...redlock.AcquireOption) *operation {
	s.asked++
	return s.calls.try(l, fmt.Sprintf("%s%d", key, s.asked), key, s.ttl, options...)
}
