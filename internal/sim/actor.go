package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// actor is one goroutine of a locker's process that takes locks, holds them for a while and
// ends them in one way or another.
type actor struct {
	*locker
	id      int
	rng     *rand.Rand
	counter int
	calls   *calls
	weather *weather
	aside   sync.WaitGroup
}

func (a *actor) run() {
	defer a.aside.Wait()
	a.pause(a.plan.ttl)
	for range a.plan.operations {
		if a.isDead() {
			return
		}
		a.once()
		a.pause(choose(a.rng, a.plan.ttl/20, a.plan.ttl/4, a.plan.ttl))
	}
}

func (a *actor) isDead() bool {
	a.locker.mu.Lock()
	defer a.locker.mu.Unlock()
	return a.dead
}

// pause sleeps for up to d. No two actors ever wake at the same instant, or nearly never.
func (a *actor) pause(d time.Duration) { time.Sleep(time.Duration(1 + a.rng.Int64N(int64(d)))) }

// once acquires a key and lives through the life of its lock.
func (a *actor) once() {
	a.locker.mu.Lock()
	l, name := a.current, fmt.Sprintf("%s-%d.%d", a.name(), a.id, a.counter)
	a.locker.mu.Unlock()
	a.counter++
	ttl := a.drawTTL()
	o := a.check.asks(name, a.drawKeys()...)
	lock := a.acquire(l, o, ttl)
	a.check.gets(o, lock)
	if lock == nil {
		return
	}
	a.log.add(name, "holds %v for %v, on %d nodes, fence %d", o.keys, lock.Validity(), lock.Nodes(), lock.Fence())
	a.watch(name, lock)
	if !a.handsOn(o) || a.handOn(o, ttl) {
		a.hold(o, ttl)
	}
	a.part(o, ttl)
}

func (a *actor) watch(name string, lock *redlock.Lock) {
	a.calls.watchers.Go(func() {
		<-lock.Done()
		a.log.add(name, "done: %v", lock.Err())
	})
}

// handsOn draws whether to hand a lock on, if it can be.
func (a *actor) handsOn(o *operation) bool {
	return a.plan.handsOn > 0 && !o.renewed && len(o.keys) == 1 && chance(a.rng, a.plan.handsOn)
}

// drawKeys draws one key or two, in any order.
func (a *actor) drawKeys() (keys []string) {
	n := 1
	if a.plan.pairs > 0 && chance(a.rng, a.plan.pairs) {
		n = 2
	}
	for _, i := range a.rng.Perm(a.plan.keys)[:n] {
		keys = append(keys, fmt.Sprintf("key%d", i))
	}
	return keys
}

func (a *actor) drawTTL() time.Duration {
	if a.plan.longTTL > 0 && chance(a.rng, 0.3) {
		return a.plan.longTTL
	}
	return choose(a.rng, a.plan.ttl, a.plan.ttl, a.plan.ttl/2, 2*a.plan.ttl)
}

// acquire tries or waits, with a ctx of some kind, and checks how long that took.
func (a *actor) acquire(l *redlock.Locker, o *operation, ttl time.Duration) (lock *redlock.Lock) {
	options := []redlock.AcquireOption{redlock.Owner(o.name)}
	if o.renewed = chance(a.rng, 0.3); o.renewed {
		options = append(options, redlock.AutoRenew())
	}
	if o.limited = chance(a.rng, 0.15); o.limited {
		options = append(options, redlock.MaxHold(ttl+time.Duration(a.rng.Int64N(int64(3*ttl)))))
	}
	timeout := a.roundTimeout(ttl)
	ctx, cancel, ends := a.context(choose(a.rng, 4*timeout, max(ttl, timeout)))
	defer cancel()
	what, call, bound := "try", l.TryAcquireAll, a.attempt(timeout, timeout)
	if chance(a.rng, 0.7) {
		what, call = "acquire", l.AcquireAll
		a.accident(o.name, ttl)
		if chance(a.rng, 0.7) {
			wait := a.patience(ttl)
			options = append(options, redlock.Wait(wait))
			what, bound = fmt.Sprintf("acquire, wait %v", wait), stretched(wait, a.machine.ppm)+a.attempt(2*timeout, timeout)
		} else if _, ok := ctx.Deadline(); ok {
			bound = ends
		} else {
			bound = stretched(defaultWait, a.machine.ppm) + a.attempt(2*timeout, timeout)
		}
	}
	a.log.add(o.name, "asks for %v: %s, ttl %v, ctx ends after %v", o.keys, what, ttl, ends)
	var err error
	a.calls.bounded(o.name, what, min(bound, ends), func() { lock, err = call(ctx, o.keys, ttl, options...) })
	if err != nil {
		a.log.add(o.name, "gets nothing: %v", err)
	}
	return lock
}

// patience draws how long to wait. Few see a very long ttl through: thousands of attempts.
func (a *actor) patience(ttl time.Duration) time.Duration {
	if chance(a.rng, 0.9) {
		ttl = min(ttl, 2*a.plan.ttl)
	}
	return between(a.rng, ttl/20, 4*ttl)
}

// accident ends the process or closes its Locker at some moment while the actor waits, perhaps.
func (a *actor) accident(name string, ttl time.Duration) {
	if !chance(a.rng, a.plan.accidents) {
		return
	}
	after, pause, dies := between(a.rng, ttl/100, 2*ttl), time.Duration(1+a.rng.Int64N(int64(ttl))), chance(a.rng, 0.3)
	a.aside.Go(func() {
		time.Sleep(after)
		if !dies || !a.die() {
			a.closeLocker(name, pause)
		}
	})
}

const defaultWait = 750 * time.Millisecond

// roundTimeout is how long one round over the nodes may take.
func (a *actor) roundTimeout(ttl time.Duration) time.Duration { return min(a.plan.timeout(), ttl/4) }

// attempt is how long an attempt may take that takes so long without fences: with them there may be another
// round. The doc comment of Acquire does not say so.
func (a *actor) attempt(unfenced, round time.Duration) time.Duration {
	unfenced += 6 * a.plan.timeout() // the first contact with a node may take so long, and who was first is not known here
	if a.plan.fenced {
		return unfenced + round
	}
	return unfenced
}

const forever = 1000 * time.Hour

// context returns a ctx that ends after some time, or never, or has ended already.
func (a *actor) context(about time.Duration) (ctx context.Context, cancel context.CancelFunc, ends time.Duration) {
	switch a.rng.IntN(8) {
	case 0:
		ends = time.Duration(1 + a.rng.Int64N(int64(about)))
		ctx, cancel = context.WithTimeout(context.Background(), ends)
		return ctx, cancel, ends
	case 1:
		ends = time.Duration(1 + a.rng.Int64N(int64(about)))
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(ends, cancel)
		return ctx, cancel, ends
	case 2:
		if chance(a.rng, 0.3) {
			ctx, cancel = context.WithCancel(context.Background())
			cancel()
			return ctx, cancel, 0
		}
	}
	return context.Background(), func() {}, forever
}

// hold works under the lock for a while, and renews it now and then.
func (a *actor) hold(o *operation, ttl time.Duration) {
	times, willing := a.rng.IntN(1+a.plan.renewals), 0.8
	if chance(a.rng, a.plan.stay) {
		times, willing = 10, 1
	}
	for range times {
		a.pause(ttl / 3)
		if chance(a.rng, willing) {
			a.renew(o, choose(a.rng, ttl, ttl, ttl/2, ttl/3, a.drawTTL()))
		}
	}
}

func (a *actor) renew(o *operation, ttl time.Duration) {
	ctx, cancel, ends := a.context(2 * a.roundTimeout(ttl))
	defer cancel()
	begin := time.Now()
	a.log.add(o.name, "renews, ttl %v, ctx ends after %v", ttl, ends)
	var err error
	// A renewal in flight may be one with a longer ttl, so with a longer timeout.
	bound := min(a.plan.timeout()+a.roundTimeout(ttl), ends)
	a.calls.bounded(o.name, "renew", bound, func() { err = o.lock.Renew(ctx, ttl) })
	a.log.add(o.name, "renewed: %v; valid for %v", err, o.lock.Validity())
	if err == nil {
		a.check.renews(o, begin)
	}
}

// part ends the lock, or forgets it. Nothing is done at the instant at which a call has come
// back: the workers are still at it.
func (a *actor) part(o *operation, ttl time.Duration) {
	a.pause(ttl / 10)
	switch x := a.rng.Float64(); {
	case o.resumed: // it lives on in another process, whatever becomes of this one
	case x < 0.06 && a.die():
		return
	case x < 0.12 && (o.limited || !o.renewed): // or nobody would ever get the key again
		a.log.add(o.name, "forgets its lock")
		return
	case x < 0.18:
		a.closeLocker(o.name, time.Duration(1+a.rng.Int64N(int64(a.plan.ttl/4))))
		return
	case chance(a.rng, a.plan.overstay): // too late
		if o.lock.Validity() > 0 {
			time.Sleep(o.lock.Validity())
			a.pause(ttl / 4)
		}
	default:
		a.pause(ttl / 2)
	}
	a.release(o)
	if chance(a.rng, 0.05) {
		a.pause(ttl / 10)
		a.release(o)
	}
}

func (a *actor) release(o *operation) {
	ctx, cancel, _ := a.context(a.plan.timeout())
	defer cancel()
	a.check.releases(o)
	a.log.add(o.name, "releases")
	var err error
	a.calls.bounded(o.name, "release", a.plan.timeout(), func() { err = o.lock.Release(ctx) })
	a.log.add(o.name, "released: %v", err)
}

// die cuts the process off for good: for the others it has crashed. What it still has to
// send arrives when the weather has cleared up.
func (a *actor) die() bool {
	a.locker.mu.Lock()
	defer a.locker.mu.Unlock()
	if a.dead {
		return true
	}
	f := a.weather.cutOff(fmt.Sprintf("client %d", a.locker.id), a.locker.id, anyone, true, true)
	a.dead = a.weather.bring(f, forever)
	return a.dead
}

// closeLocker closes the Locker, with all that hold and wait; after a pause the process begins anew.
func (a *actor) closeLocker(name string, pause time.Duration) {
	a.locker.mu.Lock()
	closing := a.closing
	a.closing = true
	a.locker.mu.Unlock()
	if closing { // by another actor
		return
	}
	a.log.add(name, "closes its locker")
	a.calls.bounded(name+" aside", "close", 4*a.plan.timeout(), a.locker.close)
	time.Sleep(pause)
	a.locker.reopen()
}
