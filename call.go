package redlock

import (
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	remote "github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/wire"
)

// call is one command of a round, on its way to one node.
type call struct {
	remote.Call
	skip bool  // not to be sent; set before the round is launched
	vote vote  // guarded by the round's claim.mu, as is err
	err  error // why not, for a vote other than granted
}

// class says which calls of a node's queue go first.
func (op *operation) class() remote.Class {
	switch {
	case op.deletes:
		return remote.Release
	case op.acquires():
		return remote.Acquire
	}
	return remote.Renew
}

// opOf returns what call i does. The second copy of a plain SET goes by script, which knows its own token.
func (r *round) opOf(i int, again bool) *operation {
	if r.op == acquireOp && again || r.entry != nil && r.isGate(i) {
		return acquireAllOp
	}
	return r.op
}

// Take is asked by a node that is about to send a call. What could set a token that is no
// longer wanted is dropped, and so is what is left of a lost renewal: another one will follow,
// and a process that is behind must not send both.
func (r *round) Take(rc *remote.Call, again bool) (cmd wire.Command, wanted bool) {
	i, c := int(rc.Index), r.claim
	if r.op.deletes && len(c.keys) == 1 {
		release := wire.Release{Key: c.keys[0], Token: c.token, Listed: r.isGate(i), Channel: r.parting.leaves()}
		return wire.Command{Release: release}, true
	}
	if r.op.deletes {
		return wire.Command{Args: releaseAllArgs(c.keys, c.token)}, true
	}
	cmd.Args = r.args
	switch {
	case r.entry != nil && r.isGate(i):
		cmd.Args = r.entry.args
	case r.op == acquireOp && again:
		cmd.Args = acquireAllArgs(c.keys, c.token, r.ttl, "", 0, wire.Listing{})
	}
	if !r.op.sets {
		return cmd, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || r.verdict == lost || c.newest != r {
		return wire.Command{}, false
	}
	if c.spots[i].place == absent {
		c.spots[i].place = maybe
	}
	return cmd, true
}

// Keys returns the keys of the round, as stored.
func (r *round) Keys(*remote.Call) []any { return r.claim.keys }

// Answer takes what came of a call from its node.
func (r *round) Answer(rc *remote.Call, a remote.Answer) {
	i := int(rc.Index)
	switch {
	case a.Unsent:
		r.answer(i, unsent(a.Err))
		return
	case a.Err != nil:
		r.answer(i, answer{vote: failed, place: maybe, err: a.Err, unanswered: true})
		return
	}
	out := r.opOf(i, a.Twice).answered(a.Reply, len(r.claim.keys))
	out.twice = a.Twice
	switch {
	case !r.op.acquires():
		r.answer(i, out)
	case out.vote == granted && !a.Known:
		out.vote, out.err = failed, errAnew
		r.answer(i, out)
	default:
		r.claim.nodes[i].vouch(r, out)
	}
}

var (
	errFirstCopy = errors.New("sent twice, and the first copy may have set the key again")
)

// second corrects what is known from the answer to a second copy, whose first copy may have run: a renewal that
// finds its token may find what the first copy has healed, and a release that finds nothing what the first has
// released. The caller holds c.mu.
func (c *claim) second(r *round, i int, a answer) answer {
	switch {
	case r.op.heals && a.vote == granted && !c.isFirst(r, a):
		a.vote, a.err = failed, errFirstCopy
	case r.op.deletes && a.err == errMissing && c.spots[i].place == present:
		a.vote, a.err = granted, nil
	}
	return a
}

// drop takes the calls that have not been sent out of the queues.
func (r *round) drop() {
	if !r.op.sets {
		return
	}
	for i := range r.calls {
		r.calls[i].Drop()
	}
}

// stalled returns how much longer a round may wait because this process stood still for a part of the timeout.
func (r *round) stalled(timeout time.Duration, now clock.Instant) time.Duration {
	if r.claim.pulse == nil {
		return 0
	}
	return timeout - (r.claim.pulse.At(now) - r.began)
}

// acquainting returns how much longer an attempt may wait for nodes whose first contact goes on: up to half of its ttl.
func (r *round) acquainting(now clock.Instant) (longer time.Duration) {
	if r.op.deletes || r.op == renewOp || r.claim.pulse == nil {
		return 0
	}
	for i := range r.calls {
		if c := &r.calls[i]; c.vote == unheard && !c.skip && (r.launched || r.isGate(i)) {
			longer = max(longer, r.claim.nodes[i].FirstContact(r.began, now))
		}
	}
	return min(longer, r.ttl/2-now.Since(r.start))
}
