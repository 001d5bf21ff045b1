package sim

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// handOn gives the token of the lock to another locker, which resumes it; the handle that the actor had
// is left alone from then on. It is done before anything with another ttl was sent for the lock:
// what the network keeps of that the other locker could not know of. Where it fails, the actor keeps
// its handle, but does not renew: the call may still arrive and set the ttl back to what it was.
func (a *actor) handOn(o *operation, ttl time.Duration) (goesOn bool) {
	heir := a.lockers[a.rng.IntN(a.plan.lockers)]
	heir.mu.Lock()
	l, name := heir.current, heir.name()
	heir.mu.Unlock()
	a.pause(ttl / 3)
	timeout := a.roundTimeout(ttl)
	ctx, cancel, ends := a.context(2 * timeout)
	defer cancel()
	var options []redlock.AcquireOption
	if o.renewed = chance(a.rng, 0.3); o.renewed {
		options = append(options, redlock.AutoRenew())
	}
	a.log.add(o.name, "is handed on to %s, ttl %v, ctx ends after %v", name, ttl, ends)
	begin, before := time.Now(), o.lock.Validity()
	var lock *redlock.Lock
	var err error
	a.calls.bounded(o.name, "resume", min(a.attempt(timeout, timeout), ends), func() {
		lock, err = l.Resume(ctx, o.keys[0], o.lock.Token(), ttl, options...)
	})
	if err != nil {
		a.log.add(o.name, "is not resumed, valid for %v: %v", before, err)
		o.renewed = false
		return false
	}
	a.check.resumes(o, lock, begin)
	a.log.add(o.name, "goes on in %s for %v, on %d nodes, fence %d", name, lock.Validity(), lock.Nodes(), lock.Fence())
	a.watch(o.name, lock)
	if heir != a.locker && chance(a.rng, 0.3) { // as in a restart of the process, which is what handing on is good for
		a.pause(ttl / 10)
		a.closeLocker(o.name, time.Duration(1+a.rng.Int64N(int64(ttl/4))))
	}
	return true
}

// resumes notes that another locker has resumed the lock of o, and checks that a quorum of nodes had
// the token then, and that nobody else has the lock. From then on the new handle alone says how
// long the lock is valid: it may renew with a shorter ttl.
func (c *checker) resumes(o *operation, lock *redlock.Lock, begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lock.Token() != o.lock.Token() {
		c.violate(RenewalHolds, "%s was resumed with another token", o.name)
	}
	o.resumed, o.lock = true, lock
	c.held(o, begin)
	for _, key := range o.keys {
		c.holders[key] = slices.DeleteFunc(c.holders[key], func(h *operation) bool { return h == o })
	}
	c.isGranted(o)
}

// deleted checks that what a command has taken from a node was not held; c.mu is held.
func (c *checker) deleted(e execution) {
	for i, token := range e.before {
		o := c.operations[owner(token)]
		if o != nil && e.after[i] != token && o.granted(token) && !o.isOver() {
			c.violate(HeldIsKept, "%s was told by client %d to delete the token of %s, which still holds it",
				e.node.name, e.client, o.name)
		}
	}
}
