package redlock

import (
	"container/heap"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

const (
	leastWindow = 16 // renewals in flight that are never too many
	firstWindow = 64
	respite     = 10 * time.Millisecond // between two renewals from the queue while none succeeds
	quickPeriod = 10 * time.Second      // for about two of these the quickest round is remembered
)

// pacer decides when automatic renewals are launched. Those that are due while too many are in
// flight wait in its queue: the lock that ends first goes first. It does no I/O and reads no clock.
//
// The window of renewals in flight grows by a quarter per round trip while locks wait and rounds are
// quick. It is halved, once per round trip, when rounds are slow: a quarter of the node timeout, or
// twice the quickest round where the nodes are that far away. Slowness alone tells that the nodes, or
// this process, have too much to do. A renewal that fails quickly says nothing of that kind.
type pacer struct {
	queue    renewalQueue
	inFlight int
	window   float64
	halved   clock.Instant

	quickest, before time.Duration // round of this period and of the one before; 0 for none
	period           clock.Instant // when this one began

	failures int           // in a row
	resume   clock.Instant // when no renewal succeeds: the next one from the queue
}

func newPacer() pacer { return pacer{window: firstWindow} }

// ending is how a renewal that was launched ended. The zero ending tells nothing.
type ending struct {
	start            clock.Instant
	elapsed, timeout time.Duration
	won, failed      bool
}

// enter reports whether a lock that is due now need not wait. Its renewal is then in flight.
func (p *pacer) enter() bool {
	if len(p.queue) > 0 || p.inFlight >= int(p.window) || p.failures >= leastWindow {
		return false
	}
	p.inFlight++
	return true
}

// wait puts a lock into the queue; its validity ends at ends.
func (p *pacer) wait(k *Lock, ends clock.Instant) { heap.Push(&p.queue, dueRenewal{k, ends}) }

// remove takes a lock out of the queue if it is there.
func (p *pacer) remove(k *Lock) {
	if k.queued > 0 {
		heap.Remove(&p.queue, k.queued-1)
	}
}

// next takes the lock whose renewal is to be launched now. If there is none, a pause says when to
// ask again; without one, done does.
func (p *pacer) next(now clock.Instant) (k *Lock, pause time.Duration) {
	if len(p.queue) == 0 || p.inFlight >= int(p.window) {
		return nil, 0
	}
	if pause = p.resume.Left(now); p.failures >= leastWindow && pause > 0 {
		return nil, pause
	}
	p.inFlight++
	return heap.Pop(&p.queue).(dueRenewal).lock, 0
}

// done ends a renewal that was in flight.
func (p *pacer) done(e ending, now clock.Instant) {
	p.inFlight--
	if !e.won && !e.failed {
		return
	}
	if e.won {
		p.failures = 0
		p.learn(e.elapsed, now)
	} else if p.failures++; p.failures >= leastWindow {
		p.resume = now.Add(respite) // each fails at once: trying faster only heats the machine
	}
	switch {
	case e.elapsed > p.quick(e.timeout):
		if !p.halved.Over(e.start) {
			break // it began before the window was halved
		}
		p.window, p.halved = max(leastWindow, p.window/2), now
	case e.won && len(p.queue) > 0:
		p.window += 0.25
	}
}

// quick returns how long a round may take before it counts as slow.
func (p *pacer) quick(timeout time.Duration) time.Duration {
	least := p.quickest
	if p.before > 0 {
		least = min(least, p.before)
	}
	return min(max(timeout/4, 2*least), timeout*3/4)
}

func (p *pacer) learn(elapsed time.Duration, now clock.Instant) {
	if now.Since(p.period) >= quickPeriod {
		p.before, p.quickest, p.period = p.quickest, 0, now
	}
	if p.quickest == 0 || elapsed < p.quickest {
		p.quickest = elapsed
	}
}

// dueRenewal is a lock in the queue.
type dueRenewal struct {
	lock *Lock
	ends clock.Instant // its validity
}

// renewalQueue is a heap; each lock in it knows its place.
type renewalQueue []dueRenewal

func (q renewalQueue) Len() int           { return len(q) }
func (q renewalQueue) Less(i, j int) bool { return q[i].ends.Since(q[j].ends) < 0 }

func (q renewalQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].lock.queued, q[j].lock.queued = i+1, j+1
}

func (q *renewalQueue) Push(e any) {
	d := e.(dueRenewal)
	*q = append(*q, d)
	d.lock.queued = len(*q)
}

func (q *renewalQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	d.lock.queued = 0
	(*q)[last] = dueRenewal{} // a lock that has left must not be kept alive
	*q = (*q)[:last]
	if last == 0 {
		*q = nil // nor the memory of a great rush
	}
	return d
}
