package redlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// request is one acquire, checked.
type request struct {
	acquireConfig
	keys    []string
	ttl     time.Duration
	resumes bool // a lock that is held, so that a failure undoes nothing
}

func (l *Locker) newRequest(keys []string, ttl time.Duration, opts []AcquireOption) (request, error) {
	if err := l.cfg.checkNames(keys); err != nil {
		return request{}, err
	}
	ttl, err := l.cfg.checkTTL(ttl)
	if err != nil {
		return request{}, err
	}
	a, err := l.cfg.forAcquire(ttl, opts)
	return request{acquireConfig: a, keys: keys, ttl: ttl}, err
}

// way is how an attempt goes about it: it asks all nodes at once, or first the gate of one of its
// keys, in whose list it waits.
type way struct {
	gate int // or noGate
	list *line
}

// attempt makes one round over the nodes with a fresh token. Every attempt has its own, so
// that its undo cannot touch a later one. A lock that is won keeps the places at the head of lines.
func (l *Locker) attempt(ctx context.Context, q request, lines []*line, by way) (*Lock, *QuorumError) {
	if err := ctx.Err(); err != nil {
		return nil, l.notAsked(q, ErrNotAcquired, err)
	}
	if !l.enter() {
		return nil, l.notAsked(q, ErrNotAcquired, ErrClosed)
	}
	defer l.leave()

	now := l.clock() // before the first send: validity counts from here
	k := l.newLock(q, now)
	k.lines = lines
	r := k.decide(ctx, k.newAttempt(q, now, by), q)
	if r.verdict == won {
		l.observer.attemptDone(q.keys[0], r.ended.Since(now), nil)
		return k, nil
	}
	failure := r.failure(k.Keys()).after(r.ended.Since(now), r.cause)
	l.observer.attemptDone(q.keys[0], failure.Elapsed, failure)
	return nil, failure
}

// decide carries out a round that should begin the lock, and if need be the one that raises its
// fence, and returns the one that decided.
func (k *Lock) decide(ctx context.Context, r *round, q request) *round {
	timeout := k.locker.nodeTimeout(q.ttl)
	r.launch()
	r.await(ctx, timeout)
	if r.entry != nil {
		r.entry.list.keepPlace(r.entry)
	}
	if r.verdict == won && k.unfenced() {
		r = k.raiseFence(q)
		if k.panel.life.Err() != nil { // Close must not wait so long
			r.giveUp(ErrClosed)
			return r
		}
		r.launch()
		r.await(ctx, timeout)
	}
	return r
}

func (k *Lock) newAttempt(q request, now clock.Instant, by way) *round {
	r := &round{op: acquireOp, start: now, ttl: q.ttl, gate: int32(by.gate), settle: k.acquired}
	proposal := ""
	if k.locker.cfg.fencing {
		proposal = strconv.FormatInt(k.proposal(), 10)
	}
	if len(k.keys) == 1 && proposal == "" {
		r.args = acquireArgs(k.keys[0], k.token, q.ttl)
	} else {
		r.op, r.args = acquireAllOp, acquireAllArgs(k.keys, k.token, q.ttl, proposal, k.locker.cfg.fenceLife, wire.Listing{})
	}
	if by.gate != noGate {
		at := wire.Listing{Name: listName(by.list.key), Channel: k.locker.lines.channel, Since: by.list.enter(by.gate)}
		r.entry = &entry{list: by.list, args: acquireAllArgs(k.keys, k.token, q.ttl, proposal, k.locker.cfg.fenceLife, at)}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.prepare(r)
}

// notAsked is the error of an acquire that ended before any node was asked.
func (l *Locker) notAsked(q request, class, cause error) *QuorumError {
	return &QuorumError{Op: acquireOp.name, Keys: slices.Clone(q.keys), Quorum: l.quorum, TTL: q.ttl, class: class, cause: cause}
}

func (l *Locker) newLock(q request, start clock.Instant) *Lock {
	k := &Lock{
		claim: claim{
			panel: &l.panel, spots: make([]spot, len(l.nodes)), keys: make([]any, len(q.keys)),
			token: newToken(q.owner), ttl: q.ttl,
		},
		locker: l, owner: q.owner, begun: start, maxHold: q.maxHold, holdEnd: start.Add(q.maxHold),
		auto: autoRenewal{on: q.autoRenew, ttl: q.ttl},
	}
	for i, key := range q.keys {
		k.keys[i] = l.cfg.prefix + key
	}
	return k
}

// randomLength is the length of 16 bytes in base64url.
const randomLength = 22

// newToken returns owner/random with 128 random bits.
func newToken(owner string) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the process instead
	token := append(make([]byte, 0, len(owner)+1+randomLength), owner...)
	token = append(token, '/')
	return string(base64.RawURLEncoding.AppendEncode(token, random[:]))
}

// acquired draws the consequences of the round that decides whether the lock begins; k.mu is held.
func (k *Lock) acquired(r *round) func() {
	now := k.clock()
	until := k.drift.until(k.begun, r.ttl) // begun before the round, if that one raises a fence
	if r.verdict == won && until.Over(now) {
		r.verdict, r.cause = lost, &tooLateError{now.Since(k.begun), r.ttl}
	}
	if r.verdict == won && k.locker.cfg.fencing && !k.settleFence(r) {
		return nothing // another round will
	}
	if r.verdict == won && !k.locker.remember(k) {
		r.verdict, r.cause = lost, ErrClosed
	}
	switch {
	case r.verdict == lost && r.op == resumeOp:
		k.ended = true
		return nothing
	case r.verdict == lost:
		return k.undo(r, now)
	}
	k.until = until
	if k.maxHold > 0 {
		k.until = clock.Earlier(k.until, k.holdEnd)
	}
	k.planRenewal(k.begun, r.ttl)
	k.start(now)
	return nothing
}

// undo makes the release that follows a lost attempt wherever it was sent. Nobody waits for
// it, and no ctx ends it. It wakes who waits for the key if the attempt stood in their way at the
// gate; not if it came through the gate itself, or waiters whom the gate favours, while the others hold the
// key, would wake each other without end.
func (k *Lock) undo(lost *round, now clock.Instant) func() {
	k.ended, k.freed = true, true
	gate := noGate
	if lost.entry == nil && len(k.keys) == 1 {
		if gate = k.gate(k.keys[0], now); k.spots[gate].place == absent {
			gate = noGate
		}
	}
	r := k.prepare(&round{op: releaseOp, start: now, gate: int32(gate)})
	if lost.entry != nil || len(k.keys) == 1 || k.holders() == 0 {
		return r.launch
	}
	return func() {
		r.launch()
		k.locker.lines.wakeNext(k.keys, nil)
	}
}
