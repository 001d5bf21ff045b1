package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// Lock is the handle of one grant. It starts held and ends, once, as lost or as released;
// a new grant is a new handle. All methods are safe for concurrent use.
type Lock struct {
	claim
	locker *Locker
	owner  string

	// life ends with the lock; its cause is what Err returns.
	life context.Context
	end  context.CancelCauseFunc

	// Guarded by claim.mu.
	until   clock.Instant
	begun   clock.Instant // when the acquire was first sent
	timer   *time.Timer
	lines   []*line // whose places at the head the lock keeps
	renewal *round  // in flight; nil otherwise
	auto    autoRenewal
	maxHold time.Duration // 0 without MaxHold
	fence   int64         // 0 without WithFencing; set before the lock begins
	holdEnd clock.Instant // of MaxHold

	unanswered int  // gates that have not answered the release
	woke       bool // one of them woke somebody

	queued int // place in the queue of renewals, from 1; 0 if it is not there. Guarded by renewals.mu
}

// Key returns the key as it was given to the acquire.
func (k *Lock) Key() string { return k.keys[0].(string)[len(k.locker.cfg.prefix):] }

// Keys returns all keys of the lock, in the order given.
func (k *Lock) Keys() []string {
	names := make([]string, len(k.keys))
	for i, key := range k.keys {
		names[i] = key.(string)[len(k.locker.cfg.prefix):]
	}
	return names
}

// Token returns the exact value stored on the nodes: owner/random. It proves ownership to
// the nodes; it is not a number that grows, so it cannot fence a resource.
func (k *Lock) Token() string { return k.token.(string) }

// Owner returns the owner part of the token.
func (k *Lock) Owner() string { return k.owner }

// Until returns the last instant at which the holder may act. It moves with each successful
// renewal and stays where it was once the lock has ended.
func (k *Lock) Until() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.until.Time()
}

// Validity returns the time left until Until, never negative, and 0 once the lock is lost or
// released. It is a local reading without I/O. A holder that is paused after looking at it
// may act too late all the same.
func (k *Lock) Validity() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life.Err() != nil {
		return 0
	}
	return max(0, k.until.Left(k.clock()))
}

// Nodes returns how many nodes are known to hold the token now: at least the quorum's while
// all goes well, fewer than all where a node was down at acquire or failed to answer the
// last renewal. It is 0 once the lock is lost or released.
func (k *Lock) Nodes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life.Err() != nil {
		return 0
	}
	return k.holders()
}

// Done returns a channel that is closed when the lock is lost or released: at Until at the
// latest, by a timer. On a machine that was suspended meanwhile the timer is late; Err,
// Validity and Renew tell the loss at once.
func (k *Lock) Done() <-chan struct{} { return k.life.Done() }

// Err returns nil while the lock is held, then an error that wraps ErrLost or ErrReleased
// and says why. It never returns nil again after Until, even if Done is a moment late.
func (k *Lock) Err() error {
	k.mu.Lock()
	k.checkTime(k.clock())
	k.mu.Unlock()
	return context.Cause(k.life)
}

// Context returns a child of parent that ends when the lock does, with a context.Cause that
// wraps ErrLost or ErrReleased. Call cancel when done with it.
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if k.life.Err() != nil {
		cancel(context.Cause(k.life))
	}
	stop := context.AfterFunc(k.life, func() { cancel(context.Cause(k.life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// start begins the holder's life; the caller holds k.mu.
func (k *Lock) start(now clock.Instant) {
	k.life, k.end = context.WithCancelCause(context.Background())
	k.timer = time.AfterFunc(k.alarm(now), k.tick)
	k.observer.watch(k)
}

// alarm returns the time until the lock wants attention; the caller holds k.mu.
func (k *Lock) alarm(now clock.Instant) time.Duration {
	next := k.until
	if k.auto.on && k.renewal == nil && !k.auto.waits {
		next = clock.Earlier(next, k.auto.next)
	}
	return max(0, next.Left(now))
}

// tick runs when the timer fires: the validity is over, or a renewal is due.
func (k *Lock) tick() {
	now := k.clock()
	k.mu.Lock()
	k.checkTime(now)
	r := k.dueRenewal(now)
	if !k.ended {
		k.timer.Reset(k.alarm(now))
	}
	k.mu.Unlock()
	k.launch(r)
}

// checkTime ends a lock whose validity is over; the caller holds k.mu.
func (k *Lock) checkTime(now clock.Instant) {
	if k.ended || !k.until.Over(now) {
		return
	}
	why := "its validity ran out"
	if k.maxHold > 0 && k.holdEnd.Left(now) <= k.drift.allowance(k.ttl)+time.Millisecond { // the grain of the wire
		why = fmt.Sprintf("its MaxHold of %v is over", k.maxHold)
	}
	k.finish(&endedError{lock: k, class: ErrLost, why: why})
}

// endedError is how a lock ended; its text is made only when somebody reads it.
type endedError struct {
	lock  *Lock
	class error
	why   string
}

func (e *endedError) Error() string {
	text := fmt.Sprintf("redlock: %s: %v", quoted(e.lock.Keys()), e.class)
	if e.why != "" {
		text += ": " + e.why
	}
	return text
}

func (e *endedError) Unwrap() error { return e.class }

// finish ends the lock, once; the caller holds k.mu. Nothing is sent: what the token still
// occupies is for Release to free, or for the ttl.
func (k *Lock) finish(cause error) {
	if k.ended {
		return
	}
	k.ended = true
	k.timer.Stop()
	k.leaveQueue()
	k.end(cause)
	k.locker.forget(k)
	if errors.Is(cause, ErrLost) {
		k.observer.lost.Add(1)
		for _, ln := range k.lines {
			ln.lose()
		}
		k.lines = nil
	}
	if k.renewal != nil {
		tell := k.renewal.decide(lost, cause) // whoever waits for it learns why
		context.AfterFunc(k.life, tell)       // at once, but not under the lock
	}
}

// Release ends the lock. The handle is released at once and locally; then the token is deleted
// on all nodes that may have it, in order after everything else sent there for it. Release
// returns when a quorum has confirmed, at the latest after the node timeout; nodes that could
// not be reached owe the deletion and get it later, or let the key expire. ctx is not
// consulted: a cancelled caller must not leave its keys behind.
//
// Errors: ErrLost when the lock was lost before, or its token was gone on a quorum: the work
// may have overlapped with another holder's. ErrNoQuorum when too few nodes confirmed; the
// lock is released all the same, the key lives on where it was not reached, at most for its
// ttl. ErrReleased from the second call on. So "defer lock.Release(ctx)" is always right.
func (k *Lock) Release(context.Context) error {
	now := k.clock()
	err := k.release(now)
	if !errors.Is(err, ErrReleased) {
		k.observer.releaseDone(k.Key(), now.Since(k.begun), err)
	}
	return err
}

func (k *Lock) release(now clock.Instant) error {
	k.mu.Lock()
	if k.freed {
		k.mu.Unlock()
		return fmt.Errorf("redlock: release %s: %w", quoted(k.Keys()), ErrReleased)
	}
	k.freed = true
	k.checkTime(now)
	k.finish(&endedError{lock: k, class: ErrReleased})
	r := k.newRelease(now)
	overrun := now.Since(k.until)
	timeout := k.locker.nodeTimeout(k.ttl)
	heed := k.heedGates(now)
	k.mu.Unlock()

	r.launch()
	if len(k.keys) > 1 {
		k.locker.lines.wakeNext(k.keys, heed)
	}
	r.await(context.Background(), timeout)
	k.standUpAfter(r.ended.Since(now), timeout)
	switch ended := context.Cause(k.life); {
	case errors.Is(ended, ErrLost):
		return fmt.Errorf("%w; released %v after its validity", ended, round3(max(0, overrun)))
	case r.verdict == won:
		return nil
	default:
		return r.failure(k.Keys())
	}
}

// newRelease makes the round of Release; the caller holds k.mu. The place in the line is given up
// when the gate has answered: the next one must know whether others wait, and must not be there before the
// one that was woken.
func (k *Lock) newRelease(now clock.Instant) *round {
	r := &round{op: releaseOp, start: now, gate: noGate}
	k.unanswered = len(k.keys)
	if len(k.keys) == 1 {
		gate := k.gate(k.keys[0], now)
		r.gate = int32(gate)
		if len(k.lines) > 0 {
			r.parting = &parting{
				channel: k.lines[0].release(gate),
				freed:   func(a answer) func() { return k.freedAtGate(k.keys[0].(string), a.woke, now) },
			}
		}
	}
	return k.prepare(r)
}
