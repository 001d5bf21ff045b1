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
	failures int // in a row
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
	return k.newRenewal(now, ttl), nil, nil
}

// dueRenewal returns the automatic renewal to launch now, if it is time; k.mu is held.
func (k *Lock) dueRenewal(now clock.Instant) *round {
	if k.ended || !k.auto.on || k.renewal != nil || !k.auto.next.Over(now) {
		return nil
	}
	return k.newRenewal(now, k.auto.ttl)
}

// newRenewal makes a renewal round; the caller holds k.mu and launches it after unlocking.
// The nodes must not keep the key beyond MaxHold, so the last renewal before it is shorter.
func (k *Lock) newRenewal(now clock.Instant, ttl time.Duration) *round {
	if k.maxHold > 0 {
		ttl = min(ttl, max(minTTL, wholeMillis(k.holdEnd.Left(now))))
	}
	k.ttl = max(k.ttl, ttl)
	k.renewal = k.prepare(&round{
		op: renewOp, args: renewArgs(k.keys, k.token, ttl, true, k.fenceText()), start: now, ttl: ttl, gate: noGate, settle: k.renewed,
	})
	return k.renewal
}

// renewed draws the consequences of a renewal and returns who is to be told; k.mu is held.
func (k *Lock) renewed(r *round) func() {
	late := time.Duration(0)
	if k.auto.on { // a renewal by hand that comes early is not late
		late = max(0, r.start.Since(k.auto.next))
	}
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
		k.auto.next = r.start.Add(min(k.auto.ttl, ttl) / 2)
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
