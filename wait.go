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
// A waiter gets the key about a round trip after it is free, first come first served. Callers of one
// Locker queue among themselves. Lockers queue in a list on one of the nodes, the gate of the key; a release
// wakes the first of it. A first attempt, or one after a back-off, may occasionally get ahead of the queue. If a
// wake-up gets lost, the next attempt comes after a back-off with full jitter (WithBackoff), or
// when the key's ttl is over.
//
// Clients of other libraries release without waking anybody. While a key holds a token that is not of this library's
// form, the first waiter of each Locker asks the gate after about a quarter of the time that it has seen that token:
// 10 ms at least and 100 ms at most. So it is late by about an eighth of the hold.
//
// Errors are those of TryAcquire: the last attempt's reason, with ctx's error beside it where
// ctx ended the waiting, and the time waited in Elapsed. ErrHeld too where other callers of this
// Locker were first and no node was asked.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	return l.AcquireAll(ctx, []string{key}, ttl, opts...)
}

// AcquireAll is Acquire for several keys as one lock, as TryAcquireAll is for TryAcquire. It takes all of them
// or none at a time and holds none while it waits, so calls with the same keys in different orders never
// block each other for good. It waits for the first key that is not free, and keeps no other caller from the
// keys that are. So callers of fewer keys may overtake it while one of its keys is always taken.
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
	w := &waiter{
		Locker: l, ctx: ctx, request: q, begin: begin, pace: l.newPace(ctx, q, begin), gate: noGate,
		stored: l.stored(keys), turn: make(chan struct{}, 1),
	}
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
	gate     int // where it listens, or noGate
	attempts int
	retries  retries
	waits    bool

	// Guarded by lines.mu while it is queued, its own otherwise.
	stored  []string      // its keys as stored, in order
	arrival uint64        // its number
	places  []*line       // that it has at the head of lines: none, one or all, in the order of the keys
	list    *line         // where it waits, in the local queue or at the head
	queued  bool          // in the local queue of list
	turn    chan struct{} // 1 place: it has been given all places
}

// stored returns the keys as the nodes have them, in one order whatever that of the call is.
func (l *Locker) stored(keys []string) []string {
	sorted := make([]string, len(keys))
	for i, key := range keys {
		sorted[i] = l.cfg.prefix + key
	}
	slices.Sort(sorted)
	return sorted
}

func (w *waiter) acquire() (*Lock, *QuorumError) {
	k, failure := w.makeAttempts()
	w.listenAt(noGate)
	if failure != nil {
		w.lines.quit(w)
		return nil, failure.after(w.clock().Since(w.begin), failure.cause)
	}
	return k, nil // which keeps the places
}

// makeAttempts tries, with the places in all lines, until it wins or the time is over. The error is that of the last
// attempt that was not cut short; or else it says that others were first.
func (w *waiter) makeAttempts() (*Lock, *QuorumError) {
	var last *QuorumError
	for {
		if !w.lines.seat(w) {
			if last == nil {
				last = w.notAsked(w.request, errAwaited, nil)
			}
			if seated, cause := w.queue(); !seated {
				return nil, last.after(0, cause)
			}
		}
		k, failure := w.try()
		if failure == nil {
			return k, nil
		}
		cause := w.ended()
		if last == nil || cause == nil {
			last = failure
		}
		if cause != nil || !w.rest(failure) {
			return nil, last.after(0, w.ended())
		}
	}
}

// queue waits for the places in the local queue. If it does not get them, it returns what
// ended the waiting: nil for the wait limit.
func (w *waiter) queue() (seated bool, cause error) {
	w.listenAt(noGate)
	w.retries = retries{}
	w.announce(0, noGate)
	var over <-chan time.Time
	if w.pace.bounded {
		timer := time.NewTimer(w.pace.rest(w.clock()))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.turn:
		return true, nil
	case <-over:
	case <-w.ctx.Done():
	case <-w.life.Done():
	}
	return false, w.ended()
}

// ended returns what has ended the call, apart from the wait limit.
func (w *waiter) ended() error {
	if w.life.Err() != nil {
		return ErrClosed
	}
	return w.ctx.Err()
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

// rest waits for the moment of the next attempt, with no other place than the one in the line of the key that was
// not free. It reports whether there should be such an attempt.
func (w *waiter) rest(failure *QuorumError) bool {
	moved := w.moveTo(failure)
	now := w.clock()
	delay, over := w.pause(failure, moved, w.isHearing(), w.list.strangerFor(failure.entry, now), now, rand.Float64)
	if delay > 0 {
		w.lines.keep(w)
		w.announce(delay, w.gate)
	}
	woken := delay > 0 && w.sleep(delay)
	return w.ended() == nil && (woken || !over)
}

// moveTo chooses the line of the key that was not free for the next attempt.
func (w *waiter) moveTo(failure *QuorumError) (moved bool) {
	if len(w.places) == 1 || failure.class != ErrHeld || failure.blocked >= len(w.keys) {
		return false
	}
	blocked := w.cfg.prefix + w.keys[failure.blocked]
	ln := w.places[slices.IndexFunc(w.places, func(ln *line) bool { return ln.key == blocked })]
	moved = ln != w.list
	w.list = ln
	return moved
}

// try makes one attempt: at all nodes at once if it is the first and nobody is known to have come
// before, or else through the gate.
func (w *waiter) try() (*Lock, *QuorumError) {
	now := w.clock()
	queues := w.attempts > 0 || w.findsQueue(now)
	ln := w.list
	by := way{gate: noGate, list: ln}
	if queues {
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

// findsQueue reports whether others wait for one of the keys at its gate, and chooses its line.
func (w *waiter) findsQueue(now clock.Instant) bool {
	i := slices.IndexFunc(w.places, func(ln *line) bool { return ln.queues(now) })
	if i >= 0 {
		w.list = w.places[i]
	}
	return i >= 0
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

// sleep returns after d, or when it is woken, or at the end of the call. Once the time to wait is over, no
// wake-up counts: what is left of d is for ctx to end the call.
func (w *waiter) sleep(d time.Duration) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	notice := w.list.notice
	for {
		select {
		case <-notice:
			if !w.pace.isOver(w.clock()) {
				return true
			}
			notice = nil
		case <-timer.C:
			return false
		case <-w.ctx.Done():
			return false
		case <-w.life.Done():
			return false
		}
	}
}

// expiryGrain is added to the life that a key has left: Redis counts it in whole milliseconds.
const expiryGrain = 2 * time.Millisecond

// clockGrain stands for a round trip during which the clock stood still: that of Windows may move only
// every 15.6 ms. Delays that grow from 0 would stay 0.
const clockGrain = time.Millisecond

// retries counts, by the reason, the attempts that were lost in a row.
type retries struct{ held, split, failed int }

// next returns the delay after an attempt that was lost. A waiter that was refused at the gate is in its list: if
// wake-ups can be heard, the back-off is but a precaution, and begins at its limit. The key is free
// at the latest when its life at the gate is over. A waiter that was refused elsewhere may share the votes with
// others, and tries again at the pace of the round trips, but ever more slowly: the gate
// may also have lost the key of a holder. So does a waiter that has moved to the list of another key. No delay but
// the first few is shorter than clockGrain, whatever a node answers and the dice say: a waiter never spins.
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
		return max(delay, clockGrain)
	case f.class == ErrHeld && e == nil:
		return 0 // on to the gate
	case f.class == ErrHeld:
		*r = retries{split: r.split + 1}
		delay := backoff(min(base, cmp.Or(f.Elapsed, clockGrain)), limit, r.split-1, random)
		if r.split > 3 {
			delay = max(delay, clockGrain)
		}
		return delay
	default:
		*r = retries{failed: r.failed + 1}
		return max(backoff(base, limit, r.failed-1, random), clockGrain)
	}
}
