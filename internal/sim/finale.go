package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// finale is the end of a run. Nothing goes wrong any more, and lockers wait in line for keys that
// were not used before.
type finale struct {
	*world
	calls *calls
	rng   *rand.Rand
	ttl   time.Duration
	cast  []*locker
	way   time.Duration // the longest between one of the cast and a node
}

func (w *world) finale(c *calls) *finale {
	f := &finale{world: w, calls: c, rng: stream(w.plan.seed, "finale"), ttl: 2 * w.plan.ttl}
	for _, i := range f.rng.Perm(w.plan.lockers) {
		if l := w.lockers[i]; (8+f.asking())*l.way() < min(w.plan.timeout(), f.ttl/4) {
			f.cast, f.way = append(f.cast, l), max(f.way, l.way())
		}
	}
	return f
}

// way is the longest time that a message between the locker and a node takes. Who cannot make four
// round trips in the time of one cannot connect, greet and ask, if the worker was busy.
func (l *locker) way() (longest time.Duration) {
	for _, w := range l.wires[l.id] {
		for _, k := range []*link{w.up, w.down} {
			longest = max(longest, k.delay+k.jitter+2*time.Microsecond)
		}
	}
	return longest
}

// limit is how long a free key that somebody waits for may stay free:
//
//	3 ways           until the release is everywhere, behind an earlier batch
//	8 ways           for an attempt that began before: at the gate and at the others, each behind a batch
//	back-off max     until the next one
//	8 ways           for that one
//	4 ways           with fences, for a second round of both
//	2 node timeouts  in which a connection is found to be broken
//
// Each of these nine batches takes 2 ways more where nodes are asked after each who they are.
func (f *finale) limit() time.Duration {
	backoff := f.plan.backoffMax
	if backoff == 0 {
		backoff = defaultBackoff
	}
	return (19+2*f.raising()+18*f.asking()/4)*f.way + backoff + 2*f.plan.timeout()
}

const (
	defaultBackoff = 500 * time.Millisecond
	listLife       = 30 * time.Second
)

// usual is how long a hand-over takes if its wake-up arrives: to the gate, from there to the one
// who is woken, and twice there and back, to the gate and to the others; with fences perhaps once more, and twice
// where nodes are asked who they are.
func (f *finale) usual() time.Duration { return (6 + f.raising() + f.asking()) * f.way }

// raising is how many ways the round takes that raises a fence, if there is one.
func (f *finale) raising() time.Duration {
	if f.plan.fenced {
		return 2
	}
	return 0
}

// asking is how many ways an attempt through a gate takes more if connections cannot be counted.
func (f *finale) asking() time.Duration {
	if slices.ContainsFunc(f.plan.uncounted, func(c counting) bool { return c != counted }) {
		return 4
	}
	return 0
}

// lineUp is more than enough to be refused by all, to connect, greet and subscribe, and to be
// in the list; a listener that just goes to bed takes a moment more.
func (f *finale) lineUp() time.Duration { return (16+2*f.asking())*f.way + 60*time.Millisecond }

// play returns the locker that has died, nil for none.
func (f *finale) play() (dead *locker) {
	if f.rest(); len(f.cast) < 2 {
		return nil
	}
	f.inLine()
	f.inACrowd()
	return f.exit()
}

// rest lets all find out what has become of the nodes, and the restart guard trust them again.
// Listeners have gone to bed by then.
func (f *finale) rest() {
	for _, l := range f.cast {
		if k, err := l.current.TryAcquire(context.Background(), "rest", f.ttl, redlock.Owner(l.name())); err == nil {
			_ = k.Release(context.Background())
		}
		time.Sleep(f.way)
	}
	time.Sleep(stretched(f.plan.window(), f.plan.lag()) + 10*time.Second)
}

// inLine makes lockers wait one after the other, one place each. The first may give up; at times the
// list ends meanwhile, and they enter it again, with the places that they had.
func (f *finale) inLine() {
	cast := slices.DeleteFunc(slices.Clone(f.cast), func(l *locker) bool { return l.id == f.plan.speller })
	if len(cast) < 2 {
		return
	}
	s := f.scene("line")
	s.hands.usual = f.usual()
	first := s.hold(cast[0])
	var cancels []func()
	for _, l := range cast[1:] {
		s.hands.arrives(l.id)
		hold := 8*f.way + time.Millisecond // one who was woken in vain is back in the list by then
		cancels = append(cancels, s.waits(l, 1, hold, false))
		time.Sleep(6*f.way + time.Millisecond)
	}
	time.Sleep(f.lineUp())
	if chance(f.rng, 0.1) {
		time.Sleep(listLife*102/100 + f.limit())
	}
	if chance(f.rng, 0.3) {
		cancels[0]()
		s.hands.leaves(cast[1].id)
		time.Sleep(4 * f.way)
	}
	s.pass(first)
	s.finish()
}

// inACrowd makes several callers of each locker wait, some of them twice; one may forget its lock.
func (f *finale) inACrowd() {
	s := f.scene("crowd")
	if !slices.ContainsFunc(f.cast, func(l *locker) bool { return l.id == f.plan.speller }) {
		s.hands.usual = f.usual()
	}
	first := s.hold(f.cast[0])
	forgetful := f.rng.IntN(10)
	for _, l := range f.cast {
		for range 1 + f.rng.IntN(3) {
			hold := between(f.rng, time.Millisecond, 10*time.Millisecond)
			s.waits(l, 1+f.rng.IntN(2), hold, s.asked == forgetful)
			time.Sleep(time.Duration(1 + f.rng.Int64N(int64(4*f.way))))
		}
	}
	time.Sleep(f.lineUp())
	s.pass(first)
	s.finish()
}

// exit ends lockers that wait: one is cut off for good, which must not keep the key from the others
// although a wake-up is wasted on it, one is closed, and the others give up.
func (f *finale) exit() (dead *locker) {
	dead = f.cast[1]
	scenes := []*scene{f.scene("grave"), f.scene("end")}
	var firsts []*operation
	var last []func()
	for _, s := range scenes {
		firsts = append(firsts, s.hold(f.cast[0]))
		last = append(last, s.waits(dead, 1, time.Millisecond, false))
		time.Sleep(6 * f.way)
		for _, l := range f.cast[2:] {
			s.waits(l, 1, time.Millisecond, false)
			time.Sleep(f.way)
		}
	}
	time.Sleep(f.lineUp())
	f.log.add("finale", "client %d is cut off for good", dead.id)
	f.eachLink(dead.id, anyone, (*link).block)
	for _, giveUp := range last {
		giveUp()
		time.Sleep(2 * f.way)
	}
	scenes[0].mourns(dead)
	scenes[0].pass(firsts[0])
	scenes[0].finish()
	if len(f.cast) > 2 {
		l := f.cast[2]
		f.calls.bounded(l.name(), "close", 4*f.plan.timeout(), l.close)
		time.Sleep(f.way)
	}
	scenes[1].cancel()
	scenes[1].waiting.Wait()
	return dead
}
