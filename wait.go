package redlock

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// Acquire locks key for ttl as TryAcquire does, but waits while it cannot be had, until ctx's
// deadline. Where ctx has none, it waits for the limit of WithWait, 750 ms by default: a forgotten
// deadline must not wait for ever. Wait overrides that limit for one call, and then holds beside a
// deadline too. An attempt under way when the limit passes is finished, so Acquire may take two node
// timeouts longer than it, with WithFencing three; the end of ctx ends it at once.
//
// Who waits gets the key about a round trip after it is free, first come first served: callers of one
// Locker queue among themselves, and Lockers in a list on one of the nodes, from which a release
// wakes the first. A first attempt, or one after a back-off, may be lucky and overtake it. Where a wake-up does not
// arrive, for whatever reason, the next attempt comes after a back-off with full jitter (WithBackoff), or
// when the key's ttl is over.
//
// Errors are those of TryAcquire: the last attempt's reason, with ctx's error beside it where
// ctx ended the waiting, and the time waited in Elapsed. ErrHeld too where other callers of this
// Locker were first and no node was asked.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	return l.AcquireAll(ctx, []string{key}, ttl, opts...)
}

// AcquireAll is Acquire for several keys as one lock, as TryAcquireAll is for TryAcquire. It takes all of them
// or none at a time and holds none while it waits, so calls with the same keys in different orders never
// block each other for good. It waits in the list of the first key that is not free.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	q, err := l.newRequest(keys, ttl, opts)
	if err != nil {
		return nil, err
	}
	begin := l.clock()
	if !l.enter() {
		return nil, l.notAsked(q, ErrNotAcquired, ErrClosed)
	}
	defer l.leave()
	w := &waiter{Locker: l, ctx: ctx, request: q, begin: begin, pace: l.newPace(ctx, q, begin), gate: noGate}
	k, failure := w.acquire()
	if failure != nil {
		err = failure
	}
	if w.waits {
		l.observer.waitDone(WaitedInfo{Key: keys[0], Attempts: w.attempts, Elapsed: l.clock().Since(begin), Err: err})
	}
	return k, err
}

// waiter is one call of Acquire.
type waiter struct {
	*Locker
	request
	ctx      context.Context
	begin    clock.Instant
	pace     *pace
	places   []*line // at the head of which it is, in the order of their keys
	at       int     // the one in whose list it waits
	gate     int     // where it listens, or noGate
	attempts int
	retries  retries
	waits    bool
}

func (w *waiter) acquire() (*Lock, *QuorumError) {
	last, failure := w.queue()
	var k *Lock
	if failure == nil {
		k, failure = w.atHead(last)
		w.listenAt(noGate)
	}
	if failure != nil {
		for _, ln := range w.places {
			ln.pass()
		}
		return nil, failure.after(w.clock().Since(w.begin), failure.cause)
	}
	return k, nil // which keeps the places
}

// queue waits for the places at the head of all lines. It takes them in the order of the keys, whatever that
// of the call is, so that no two callers wait for each other. The first error is what is known before any
// node is asked: nil if nobody else was first.
func (w *waiter) queue() (last, failure *QuorumError) {
	sorted := make([]string, len(w.keys))
	for i, key := range w.keys {
		sorted[i] = w.cfg.prefix + key
	}
	slices.Sort(sorted)
	w.places = make([]*line, 0, len(sorted))
	for _, key := range sorted {
		ln := w.lines.join(key)
		if !ln.head.TryAcquire(1) {
			last = w.notAsked(w.request, errAwaited, nil)
			if cause, first := w.queueIn(ln); !first {
				ln.quit()
				last.cause = cause
				return nil, last
			}
		}
		w.places = append(w.places, ln)
	}
	return last, nil
}

// queueIn waits for the place at the head of a line. If it does not get it, it returns what
// ended the waiting: nil for the wait limit.
func (w *waiter) queueIn(ln *line) (cause error, first bool) {
	w.announce(0, noGate)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
	if w.pace.bounded {
		defer time.AfterFunc(max(0, w.pace.end.Left(w.clock()))+w.pace.slack, cancel).Stop()
	}
	first = ln.head.Acquire(ctx, 1) == nil
	if !first {
		cause = w.ended()
	}
	return cause, first
}

// ended returns what has ended the call, apart from the wait limit.
func (w *waiter) ended() error {
	if w.life.Err() != nil {
		return ErrClosed
	}
	return w.ctx.Err()
}

// atHead makes attempts until one is won or the time is over. The error is that of the last one
// that was not cut short, or else last.
func (w *waiter) atHead(last *QuorumError) (*Lock, *QuorumError) {
	for {
		k, failure := w.try()
		if failure == nil {
			return k, nil
		}
		cause := w.ended()
		if last == nil || cause == nil {
			last = failure
		}
		moved := w.moveTo(failure)
		delay := w.retries.next(failure, moved, w.isHearing(), w.cfg.backoffBase, w.cfg.backoffMax, rand.Float64())
		delay, over := w.pace.fit(delay, w.clock(), rand.Float64())
		woken := false
		if cause == nil && delay > 0 {
			w.announce(delay, w.gate)
			woken, cause = w.sleep(delay)
		}
		if cause != nil || over && !woken {
			return nil, last.after(0, cause)
		}
	}
}

// announce tells that the waiting begins, or goes on for d.
func (w *waiter) announce(d time.Duration, gate int) {
	info := WaitInfo{Key: w.keys[0], Attempts: w.attempts, Delay: d}
	if gate != noGate {
		info.Gate = w.nodes[gate].name
	}
	w.observer.waitsFor(info, !w.waits)
	w.waits = true
}

// moveTo chooses the line of the key that was not free for the next attempt.
func (w *waiter) moveTo(failure *QuorumError) (moved bool) {
	if len(w.places) == 1 || failure.class != ErrHeld {
		return false
	}
	blocked := w.cfg.prefix + w.keys[failure.blocked]
	at := slices.IndexFunc(w.places, func(ln *line) bool { return ln.key == blocked })
	if moved = at != w.at; moved {
		w.places[w.at].leave()
		w.at = at
	}
	return moved
}

// try makes one attempt: at all nodes at once if it is the first and nobody is known to have come
// before, or else through the gate.
func (w *waiter) try() (*Lock, *QuorumError) {
	ln := w.places[w.at]
	by := way{gate: noGate, list: ln}
	if now := w.clock(); w.attempts > 0 || ln.queues(now) {
		by.gate = w.panel.gate(ln.key, now)
	}
	w.attempts++
	w.listenAt(by.gate)
	select {
	case <-ln.notice: // the attempt will see for itself
	default:
	}
	return w.attempt(w.ctx, w.request, w.places, by)
}

// listenAt moves to the listener of another node; noGate: to none.
func (w *waiter) listenAt(gate int) {
	if gate == w.gate {
		return
	}
	if w.gate != noGate {
		w.listeners[w.gate].quit()
	}
	if w.gate = gate; gate != noGate {
		w.listeners[gate].join(w.spawn)
	}
}

func (w *waiter) isHearing() bool { return w.gate != noGate && w.listeners[w.gate].isHearing() }

// sleep returns after d, or when it is woken, or with the reason to stop waiting.
func (w *waiter) sleep(d time.Duration) (woken bool, cause error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-w.places[w.at].notice:
		return true, nil
	case <-w.ctx.Done():
	case <-w.life.Done():
	}
	return false, w.ended()
}

// expiryGrain is added to the life that a key has left: Redis counts it in whole milliseconds.
const expiryGrain = 2 * time.Millisecond

// clockGrain stands for a round trip during which the clock stood still: that of Windows may move only
// every 15.6 ms. Delays that grow from 0 would stay 0.
const clockGrain = time.Millisecond

// retries counts, by the reason, the attempts that were lost in a row.
type retries struct{ held, split, failed int }

// next returns the delay after an attempt that was lost. Who was refused at the gate is in its list: if
// wake-ups can be heard, the back-off is but a precaution, and begins at its limit. The key is free
// at the latest when its life at the gate is over. Who was refused elsewhere may share the votes with
// others, and tries again at the pace of the round trips, but ever more slowly: the gate
// may also have lost the key of a holder. So does who has moved to the list of another key.
func (r *retries) next(f *QuorumError, moved, hears bool, base, limit time.Duration, random float64) time.Duration {
	switch e := f.entry; {
	case e.wasRefused() && !moved:
		delay := backoff(base, limit, r.held, random)
		if hears && e.answer.since > 0 {
			delay = backoff(limit, limit, 0, random)
		}
		if e.answer.timed {
			delay = min(delay, e.answer.left+expiryGrain)
		}
		*r = retries{held: r.held + 1}
		return delay
	case f.class == ErrHeld && e == nil:
		return 0 // on to the gate
	case f.class == ErrHeld:
		*r = retries{split: r.split + 1}
		return backoff(min(base, cmp.Or(f.Elapsed, clockGrain)), limit, r.split-1, random)
	default:
		*r = retries{failed: r.failed + 1}
		return backoff(base, limit, r.failed-1, random)
	}
}

// pace spreads the attempts of one Acquire over the time it may wait.
type pace struct {
	bounded bool
	end     clock.Instant
	slack   time.Duration // how much longer than end to sleep at last: where ctx will end it
	final   bool
}

func (l *Locker) newPace(ctx context.Context, q request, begin clock.Instant) *pace {
	p := &pace{}
	wait := l.cfg.wait
	if q.waitSet {
		wait = q.wait
	}
	deadline, hasDeadline := ctx.Deadline()
	if wait > 0 && (q.waitSet || !hasDeadline) {
		p.bounded, p.end = true, begin.Add(wait)
	}
	if hasDeadline {
		end := begin.Add(time.Until(deadline))
		if !p.bounded || p.end.Since(end) > 0 {
			p.bounded, p.end, p.slack = true, end, time.Second
		}
	}
	return p
}

// fit returns the delay before the next attempt, or, when over, before giving up. What is
// left at the end is not slept away: one last attempt is made at a random moment of it.
func (p *pace) fit(delay time.Duration, now clock.Instant, random float64) (fitted time.Duration, over bool) {
	if !p.bounded {
		return delay, false
	}
	left := max(0, p.end.Left(now))
	switch {
	case delay < left && !p.final:
		return delay, false
	case left > 0 && !p.final:
		p.final = true
		return time.Duration(random * float64(left)), false
	default:
		return left + p.slack, true
	}
}
