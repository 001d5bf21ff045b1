package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// verdict is what the votes of a round amount to.
type verdict uint8

const (
	pending verdict = iota + 1
	won
	lost
)

// tally counts the votes of one round. The quorum comes from the configured nodes, never
// from those that answered.
type tally struct {
	nodes, quorum            int
	granted, refused, failed int
}

func majority(nodes int) int { return nodes/2 + 1 }

// verdict is won at the quorum's last vote. It is lost when the quorum is out of reach and
// the open votes can no longer change why: whether the key is held must not depend on which
// of the nodes answered first.
func (t tally) verdict() verdict {
	open := t.nodes - t.granted - t.refused - t.failed
	spare := t.nodes - t.quorum
	switch {
	case t.granted >= t.quorum:
		return won
	case t.granted+open >= t.quorum, t.refused <= spare && t.refused+open > spare:
		return pending
	default:
		return lost
	}
}

// blocked reports whether refusals alone keep the quorum out of reach.
func (t tally) blocked() bool { return t.refused > t.nodes-t.quorum }

func (t *tally) count(v vote) {
	switch v {
	case granted:
		t.granted++
	case refused:
		t.refused++
	case failed:
		t.failed++
	}
}

// vote is the outcome of one call.
type vote uint8

const (
	unheard vote = iota
	granted
	refused
	failed
)

// panel is the fixed set of nodes that vote.
type panel struct {
	nodes  []*node
	quorum int
	clock  func() clock.Instant
	today  func() time.Time // the time of day, for fences alone
	drift  drift
	guard  *guard
	life   context.Context // of the locker

	observer *observer
	timers   sync.Pool // of *time.Timer: they save most of what a round would allocate for its timeout
}

// round carries one operation over all nodes and tallies what they answer.
type round struct {
	claim *claim
	op    *operation
	args  []any         // nil for a release, which the worker puts together with others
	start clock.Instant // read before the first send
	ttl   time.Duration // asked for; 0 for a release

	// settle turns the verdict into consequences. It is called once, with the claim locked,
	// and may still turn won into lost; what it returns runs after the claim is unlocked.
	settle func(*round) func()

	entry   *entry   // of an attempt that asks the gate first
	parting *parting // of the release of a lock that keeps a place in a line

	calls   []call
	decided chan struct{}

	// Guarded by claim.mu. The tally and the calls' votes are frozen once decided.
	gate     int32 // the node whose call concerns the waiting list too, or noGate; not changed
	launched bool
	verdict  verdict
	tally    tally
	cause    error
	timer    *time.Timer // of a round that nobody awaits
	ended    clock.Instant
	blocked  int // index of the key that was not free, by the latest refusal
}

// prepare completes a round; the caller holds c.mu and calls launch after unlocking it.
// A release goes only where the token is, or may still arrive, and to the gate; the other nodes
// are counted as not holding it.
func (c *claim) prepare(r *round) *round {
	r.claim = c
	r.calls = make([]call, len(c.nodes))
	r.decided = make(chan struct{})
	r.verdict = pending
	r.tally = tally{nodes: len(c.nodes), quorum: c.quorum}
	for i := range r.calls {
		r.calls[i].round, r.calls[i].index = r, i
		if s := c.spots[i]; !r.op.sets && s.place == absent && s.late == 0 && !r.isGate(i) {
			r.calls[i].skip = true
			r.record(i, answer{vote: refused, err: errMissing})
		}
	}
	return r
}

// launch hands the calls to the nodes' workers and never blocks on a node. An attempt through
// the gate sends that call alone; the others follow when it was not refused there.
func (r *round) launch() {
	if r.entry != nil {
		r.submit(int(r.gate))
		return
	}
	r.launchAll()
}

// launchAll sends what has not been sent. The verdict waits until all calls are queued:
// consequences of this round, such as an undo, must come after them in every queue.
func (r *round) launchAll() {
	for i := range r.calls {
		if !r.calls[i].skip && (r.entry == nil || !r.isGate(i)) {
			r.submit(i)
		}
	}
	r.claim.mu.Lock()
	r.launched = true
	then := r.judge()
	r.claim.mu.Unlock()
	then()
}

func (r *round) isGate(i int) bool { return i == int(r.gate) }

func (r *round) submit(i int) {
	if err := r.claim.nodes[i].submit(&r.calls[i], r.start); err != nil {
		r.answer(i, unsent(err))
	}
}

// take is asked by a worker that is about to send call i. What could set a token that is no
// longer wanted is dropped, and so is what is left of a lost renewal: another one will follow,
// and a process that is behind must not send both.
func (r *round) take(i int) bool {
	if !r.op.sets {
		return true
	}
	c := r.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || r.verdict == lost {
		return false
	}
	if c.spots[i].place == absent {
		c.spots[i].place = maybe
	}
	return true
}

// answer takes the outcome of call i. After the verdict it only adds to what is known of
// the token: a late grant on a won attempt counts for Nodes, one on a lost attempt is
// deleted by the undo that follows it in the same queue. A release that did not reach its
// node, or that a late command might revert, is remembered there as a debt.
func (r *round) answer(i int, a answer) {
	c := r.claim
	c.mu.Lock()
	s := &c.spots[i]
	missing := c.missingLife(i, a)
	if missing > 0 {
		a.vote = failed
		a.err = fmt.Errorf("its clock runs ahead: of a %v ttl, %v are missing", s.ttl, round3(missing))
	}
	if !a.unsent {
		s.place = a.place
		s.set, s.ttl = r.start, r.ttl
		if a.vote == failed && missing <= 0 {
			s.ttl = 0 // it may have been set or not
		}
		if a.vote == granted {
			s.fence = a.fence
		}
	}
	if !r.op.deletes && a.unanswered && (s.late == 0 || r.ttl < s.late) {
		s.late = r.ttl
	}
	if r.op.shortens() && a.unanswered && (s.cut == 0 || r.ttl < s.cut) {
		s.cut = r.ttl
	}
	switch {
	case r.op.sets && a.unanswered && c.freed: // its release may have been booked before this was known
		c.owe(i, debt{late: true})
	case !r.op.deletes:
	case a.vote == failed:
		c.owe(i, debt{
			expires: c.outlived(r.start), late: s.late > 0, listed: r.isGate(i), channel: r.parting.leaves(),
		})
	case s.late > 0:
		for _, key := range c.keys {
			c.nodes[i].oweAgain(debt{key: key, token: c.token})
		}
	}
	then := nothing
	if r.verdict == pending {
		r.record(i, a)
		then = r.judge()
	}
	passed := nothing
	if r.isGate(i) {
		passed = r.atGate(a)
	}
	c.mu.Unlock()
	if missing > 0 {
		c.guard.ranAhead(i, c.clock())
		c.observer.clockAhead(c.nodes[i].name, missing)
	}
	then()
	passed()
}

func (r *round) record(i int, a answer) {
	r.calls[i].vote, r.calls[i].err = a.vote, a.err
	if a.vote == refused {
		r.blocked = a.blocked
	}
	r.tally.count(a.vote)
}

func (r *round) judge() func() {
	if !r.launched || r.verdict != pending {
		return nothing
	}
	v := r.tally.verdict()
	if v == pending {
		return nothing
	}
	return r.decide(v, nil)
}

// decide ends the round; the caller holds claim.mu and runs the result after unlocking.
func (r *round) decide(v verdict, cause error) func() {
	r.verdict, r.cause, r.ended = v, cause, r.claim.clock()
	if r.timer != nil {
		r.timer.Stop()
	}
	then := nothing
	if r.settle != nil {
		then = r.settle(r)
	}
	close(r.decided)
	return then
}

// expire counts every node that has not answered by the timeout as failed. It returns how much
// longer to wait where the timeout began anew behind the gate.
func (r *round) expire(timeout time.Duration) (again time.Duration) {
	r.claim.mu.Lock()
	then := nothing
	if r.verdict == pending {
		again = r.entry.extension(timeout, r.claim.clock())
		if again <= 0 || r.claim.life.Err() != nil { // Close must not wait so long
			again = 0
			then = r.fail(fmt.Errorf("no answer within %v", timeout))
		}
	}
	r.claim.mu.Unlock()
	then()
	return again
}

// fail counts all nodes that have not been heard as failed; the caller holds claim.mu and runs
// the result after unlocking.
func (r *round) fail(why error) func() {
	for i := range r.calls {
		if r.calls[i].vote != unheard {
			continue
		}
		if r.launched || r.isGate(i) {
			r.record(i, answer{vote: failed, err: why})
		} else {
			r.record(i, answer{vote: failed, err: errUnheard}) // not asked
		}
	}
	r.launched = true
	return r.judge()
}

// await blocks until the round is decided. The timeout decides it too, and so do the end of ctx and,
// but for a release, that of the locker. The verdict can be read without the lock from then on.
func (r *round) await(ctx context.Context, timeout time.Duration) {
	timer, _ := r.claim.timers.Get().(*time.Timer)
	if timer == nil {
		timer = time.NewTimer(timeout)
	} else {
		timer.Reset(timeout)
	}
	closed := r.claim.panel.life.Done()
	if r.op.deletes {
		closed = nil // it is still sent, and its answer is true
	}
	for decided := false; !decided; {
		select {
		case <-r.decided:
			decided = true
		case <-timer.C:
			if again := r.expire(timeout); again > 0 {
				timer.Reset(again)
			} else {
				decided = true
			}
		case <-ctx.Done():
			r.giveUp(ctx.Err())
			decided = true
		case <-closed:
			r.giveUp(ErrClosed)
			decided = true
		}
	}
	timer.Stop()
	r.claim.timers.Put(timer)
}

// expireAfter is the timeout of a round that nobody awaits.
func (r *round) expireAfter(timeout time.Duration) {
	r.claim.mu.Lock()
	defer r.claim.mu.Unlock()
	if r.verdict == pending {
		r.timer = time.AfterFunc(timeout, func() { r.expire(timeout) })
	}
}

func (r *round) giveUp(cause error) {
	r.claim.mu.Lock()
	then := nothing
	if r.verdict == pending {
		then = r.decide(lost, cause)
	}
	r.claim.mu.Unlock()
	then()
}

func nothing() {}

// failure reports a decided round that was not won.
func (r *round) failure(keys []string) *QuorumError {
	r.claim.mu.Lock()
	defer r.claim.mu.Unlock()
	return r.failureLocked(keys)
}

func (r *round) failureLocked(keys []string) *QuorumError {
	e := &QuorumError{
		Op: r.op.name, Keys: keys, Quorum: r.tally.quorum,
		Granted: r.tally.granted, Refused: r.tally.refused, Failed: r.tally.failed,
		Elapsed: r.ended.Since(r.start), TTL: r.ttl,
		Nodes: make([]NodeError, len(r.calls)),
		class: ErrNoQuorum, cause: r.cause, entry: r.entry, blocked: r.blocked,
	}
	if r.tally.blocked() || r.entry.wasRefused() {
		e.class = r.op.blocked
	}
	for i := range r.calls {
		err := r.calls[i].err
		if r.calls[i].vote == unheard {
			err = errUnheard
		}
		e.Nodes[i] = NodeError{Node: r.claim.nodes[i].name, Err: err}
	}
	return e
}
