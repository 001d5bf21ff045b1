package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// autoRenewal is how a lock renews itself; guarded by claim.mu, but for ttl.
type autoRenewal struct {
	on       bool
	ttl      time.Duration
	next     clock.Instant
	failures int  // in a row
	waits    bool // due, and in the queue of renewals
}

// Renew sets (never adds) the ttl of the lock on every node that holds the token, and gives
// the token back to nodes that lost the key. It returns nil when a quorum still held it. Until
// is then start + ttl − drift, where start is when this renewal was first sent; sooner, where
// an earlier renewal with a shorter ttl was cut off and may still arrive. Renew waits for a
// renewal in flight, then for the votes: no longer than the node timeout each, or until ctx
// ends.
//
// Errors: ErrLost when the validity is over (nothing is sent) or a quorum no longer holds the
// token (the lock ends at once); ErrReleased. With ErrNoQuorum, for outages or because ctx
// ended (its error is wrapped too), the lock stays held until Until, which a failed renewal
// never moves later, only sooner where the ttl asked for is shorter; it may be repeated.
//
// The ttl is rounded down to milliseconds and bounded as for TryAcquire; MaxHold shortens it.
func (k *Lock) Renew(ctx context.Context, ttl time.Duration) error {
	ttl, err := k.locker.cfg.checkTTL(ttl)
	if err != nil {
		return err
	}
	r, err := k.beginRenewal(ctx, ttl)
	if err != nil {
		return err
	}
	r.launch()
	r.await(ctx, k.locker.nodeTimeout(r.ttl))
	if r.verdict == won {
		return nil
	}
	return r.failure(k.Keys())
}

// beginRenewal returns a round to launch, once no other renewal is in flight: two at a time
// could reach the nodes in different orders, and the longer ttl would be believed.
func (k *Lock) beginRenewal(ctx context.Context, ttl time.Duration) (*round, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("redlock: renew %s: %w", quoted(k.Keys()), err)
		}
		r, other, err := k.tryRenewal(ttl)
		if err != nil || r != nil {
			return r, err
		}
		select {
		case <-other.decided:
		case <-ctx.Done():
		}
	}
}

func (k *Lock) tryRenewal(ttl time.Duration) (r, other *round, err error) {
	now := k.clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checkTime(now)
	switch {
	case k.ended:
		return nil, nil, context.Cause(k.life)
	case k.renewal != nil:
		return nil, k.renewal, nil
	}
	return k.newRenewal(now, ttl, k.renewedByHand), nil, nil
}

func (k *Lock) isDue(now clock.Instant) bool {
	return !k.ended && k.auto.on && k.renewal == nil && k.auto.next.Over(now)
}

// dueRenewal returns the automatic renewal to launch now, if it is time and not too many are in
// flight; k.mu is held. Where they are, the lock waits for its turn, as long as it is valid.
func (k *Lock) dueRenewal(now clock.Instant) *round {
	if k.auto.waits || !k.isDue(now) {
		return nil
	}
	if !k.locker.renewals.enter(k, k.until) {
		k.auto.waits = true
		return nil
	}
	return k.newRenewal(now, k.auto.ttl, k.renewedItself)
}

// renewInTurn launches the automatic renewal of a lock that had to wait for it.
func (k *Lock) renewInTurn() {
	now := k.clock()
	k.mu.Lock()
	k.leaveQueue() // it may have entered it again meanwhile
	k.checkTime(now)
	var r *round
	if k.isDue(now) { // no renewal by hand was quicker
		r = k.newRenewal(now, k.auto.ttl, k.renewedItself)
	}
	k.mu.Unlock()
	if r == nil {
		k.locker.renewals.done(ending{})
	}
	k.launch(r)
}

// launch sends an automatic renewal, if there is one.
func (k *Lock) launch(r *round) {
	if r != nil {
		r.launch()
		r.expireAfter(k.locker.nodeTimeout(r.ttl))
	}
}

// planRenewal sets when the next automatic renewal is due, after a round that gave the lock a ttl; k.mu is
// held.
func (k *Lock) planRenewal(start clock.Instant, ttl time.Duration) {
	k.auto.next = start.Add(renewalDelay(ttl, rand.Float64()))
}

// leaveQueue ends the waiting for an automatic renewal; k.mu is held.
func (k *Lock) leaveQueue() {
	if k.auto.waits {
		k.auto.waits = false
		k.locker.renewals.leave(k)
	}
}

// newRenewal makes a renewal round; the caller holds k.mu and launches it after unlocking.
// The nodes must not keep the key beyond MaxHold, so the last renewal before it is shorter.
func (k *Lock) newRenewal(now clock.Instant, ttl time.Duration, settle func(*round) func()) *round {
	k.leaveQueue()
	if k.maxHold > 0 {
		ttl = min(ttl, max(minTTL, wholeMillis(k.holdEnd.Left(now))))
	}
	k.ttl = max(k.ttl, ttl)
	k.renewal = k.prepare(&round{
		op: renewOp, args: renewArgs(k.keys, k.token, ttl, true, k.fenceText(), k.locker.cfg.fenceLife), start: now, ttl: ttl, gate: noGate, settle: settle,
	})
	return k.renewal
}

// renewedByHand is called with the verdict of a renewal by hand; k.mu is held.
func (k *Lock) renewedByHand(r *round) func() { return k.renewed(r, 0) }

// renewedItself is called with the verdict of an automatic renewal; k.mu is held.
func (k *Lock) renewedItself(r *round) func() {
	tell := k.renewed(r, r.start.Since(k.auto.next))
	e := ending{start: r.start, elapsed: r.ended.Since(r.start), timeout: k.locker.nodeTimeout(r.ttl)}
	e.won, e.failed = r.verdict == won, r.verdict != won && !k.ended
	return func() {
		k.locker.renewals.done(e)
		tell()
	}
}

// renewed draws the consequences of a renewal and returns who is to be told; k.mu is held.
func (k *Lock) renewed(r *round, late time.Duration) func() {
	k.conclude(r)
	info := RenewalInfo{Key: k.Key(), Elapsed: r.ended.Since(r.start), Late: late, Until: k.until.Time(), Nodes: k.holders()}
	if r.verdict != won {
		info.Err = r.failureLocked(k.Keys())
	}
	return func() { k.observer.renewalDone(info) }
}

func (k *Lock) conclude(r *round) {
	k.renewal = nil
	now := k.clock()
	k.checkTime(now) // a verdict after until is too late to count
	if k.ended {
		r.verdict = lost
		if r.cause == nil {
			r.cause = context.Cause(k.life)
		}
		return
	}
	ttl := k.promised(r)
	until := k.drift.until(r.start, ttl)
	if k.maxHold > 0 {
		until = clock.Earlier(until, k.holdEnd)
	}
	switch {
	case r.verdict == won && !until.Over(now):
		k.until = until
		k.auto.failures = 0
		k.planRenewal(r.start, min(k.auto.ttl, ttl))
		if k.maxHold > 0 && wholeMillis(k.holdEnd.Left(r.start)) <= ttl {
			k.auto.on = false // this lease lasts until the end of MaxHold, as far as the wire can say
		}
	case r.tally.blocked():
		k.finish(r.failureLocked(k.Keys()))
		return
	default:
		if r.verdict == won {
			r.verdict, r.cause = lost, &tooLateError{now.Since(r.start), r.ttl}
		}
		k.until = clock.Earlier(k.until, until)
		k.auto.next = now.Add(backoff(k.locker.cfg.backoffBase, k.locker.cfg.backoffMax, k.auto.failures, rand.Float64()))
		k.auto.failures++
	}
	k.timer.Reset(k.alarm(now))
}

// promised is how long a quorum of nodes keeps the key after a renewal: the Q-th longest promise of
// those that granted it. A node that may still get a cut-off command with a shorter ttl promises no
// more than that. The caller holds k.mu.
func (k *Lock) promised(r *round) time.Duration {
	if r.verdict != won { // cut-off commands before this one have bounded until when they failed
		return r.ttl
	}
	promises := make([]time.Duration, 0, 9) // on the stack
	for i, s := range k.spots {
		if r.calls[i].vote != granted {
			continue
		}
		promise := r.ttl
		if s.cut > 0 {
			promise = min(promise, s.cut)
		}
		promises = append(promises, promise)
	}
	slices.Sort(promises)
	return promises[len(promises)-k.quorum]
}
