package redlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// Resume adopts a lock that is held: token is Lock.Token of the handle that got it, in this process or another, or what was
// kept of it through a restart. The lock is renewed to ttl on the nodes that hold the token, and granted if they are a
// quorum; it is never taken anew. It waits as TryAcquire does, and options and arguments are as there; Owner, which is
// part of the token, and Wait are refused. With WithFencing the fence is the one of the lock, or a larger one that no
// later grant falls below.
//
// From then on the former holder must not act, renew or release; let its handle be, with no
// AutoRenew running: both would act at a time, and its Release would free the lock of the new one. A command of
// its that is still under way, or owed to a node that did not answer, may shorten the key's life there or
// delete it; renewals repair that on a minority of nodes. If its Locker stays open, callers of Acquire there queue
// behind the former handle until its validity is over.
//
// Errors: ErrLost when a quorum no longer holds the token. ErrNoQuorum, with ctx's error or ErrClosed where that
// ended it, when too few nodes answered to know: the lock may still be held and resumed again. In both cases
// nothing is deleted, and nodes that had the token may have set its life to ttl.
func (l *Locker) Resume(ctx context.Context, key, token string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	q, err := l.newRequest([]string{key}, ttl, opts)
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return nil, errors.New("redlock: token is empty")
	case q.waitSet:
		return nil, errors.New("redlock: Wait: Resume does not wait")
	case q.ownerSet:
		return nil, errors.New("redlock: Owner: it is part of the token")
	}
	q.resumes = true
	if !l.enter() {
		return nil, l.notResumed(q, ErrClosed)
	}
	defer l.leave()
	if err := ctx.Err(); err != nil {
		return nil, l.notResumed(q, err)
	}
	now := l.clock() // before the first send
	k := l.newLock(q, now)
	k.token, k.owner = token, ownerOf(token)
	r := k.decide(ctx, k.newResumption(q, now), q)
	if r.verdict != won {
		return nil, r.failure(k.Keys())
	}
	return k, nil
}

func (l *Locker) notResumed(q request, cause error) error {
	e := l.notAsked(q, ErrNoQuorum, cause)
	e.Op = resumeOp.name
	return e
}

func (k *Lock) newResumption(q request, now clock.Instant) *round {
	fence := ""
	if k.locker.cfg.fencing {
		fence = "0" // tell the numbers, and raise none
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.spots {
		k.spots[i].place = maybe
	}
	k.past = maxTTL // of the lock that is resumed: nobody tells it
	if k.locker.cfg.maxTTL > 0 {
		k.past = k.locker.cfg.maxTTL
	}
	return k.prepare(&round{
		op: resumeOp, args: renewArgs(k.keys, k.token, q.ttl, resumeOp.sets, fence, k.locker.cfg.fenceLife), start: now, ttl: q.ttl, gate: noGate,
		settle: k.acquired,
	})
}

// ownerOf returns the owner in a token of this library, "" for other values.
func ownerOf(token string) string {
	i := strings.LastIndexByte(token, '/')
	if i < 0 || len(token)-i-1 != randomLength || strings.ContainsFunc(token[i+1:], notBase64URL) {
		return ""
	}
	return token[:i]
}

func notBase64URL(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
