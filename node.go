package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/clock"
)

const (
	maxBatch     = 256                   // calls in one pipeline: more only makes the first of them wait
	probeBase    = 50 * time.Millisecond // delay before the second probe of a node that is down
	probeMax     = 2 * time.Second
	steadyPeriod = 2 * time.Second // a node that failed again within it was not really up
)

// redisClient is what a node needs of its client.
type redisClient interface {
	Pipeline() redis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// node is one Redis server: its client, the queue of calls for it, and the one worker that
// sends them. Because nobody else sends, calls reach the server in the order of the queue,
// and those of many rounds share one round trip.
type node struct {
	name     string
	hash     uint64 // of its address, for the choice of gates
	client   redisClient
	own      bool // the client is one of Open's
	timeout  time.Duration
	clock    func() clock.Instant
	guard    *guard
	observer *observer
	index    int            // among the nodes
	left     func()         // tells who waits there that it is down
	dials    *atomic.Uint64 // connections made, counted by the client's dialer or hook; 0 where nobody counts
	wake     chan struct{}  // 1 place; filled when an idle worker gets something to do
	exited   chan struct{}  // closed by the worker as its last act

	introduced chan struct{} // closed by the worker when its first contact is over, well or badly

	mu        sync.Mutex
	idle      bool // the worker waits for wake
	stopping  bool
	queue     []*call
	busy      bool          // the worker is in a call of the client
	since     clock.Instant // … since then
	fault     error         // the breaker: why the node is not asked; nil when it is
	downAt    clock.Instant // … since when
	roundTrip time.Duration // smoothed
	ledger    ledger

	// The worker's own.
	batch      []*call
	releases   []*call
	waking     []*call // those of them that concern waiting lists
	wide       []*call // releases of several keys
	commands   []command
	together   []any // arguments of the release of many
	wire       []redis.Cmder
	slots      slots
	single     bool          // the server takes no command over several keys
	met        uint64        // the number of dials at which the node last told who it is, or never
	identified bool          // it has told who it is since the batch was executed, as far as it can
	failures   int           // probes and batches in a row that did not reach the node
	probeAt    clock.Instant // when down: the next probe
	upSince    clock.Instant
}

func newNode(name string, client redisClient, timeout time.Duration, now func() clock.Instant) *node {
	return &node{
		name: name, hash: hashOf(canonical(name)), client: client, timeout: timeout, clock: now, left: nothing,
		wake: make(chan struct{}, 1), exited: make(chan struct{}), introduced: make(chan struct{}),
		dials: new(atomic.Uint64), met: never,
	}
}

// submit queues a call, or says why the node cannot take it: it is down, or its worker has
// been waiting for an answer for longer than the node timeout. It never blocks on the node.
func (n *node) submit(c *call, now clock.Instant) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopping:
		return ErrClosed
	case n.fault != nil:
		return n.fault
	case n.busy && now.Since(n.since) >= n.timeout:
		return fmt.Errorf("no answer for %v", round3(now.Since(n.since)))
	}
	n.queue = append(n.queue, c)
	n.rouse()
	return nil
}

// rouse wakes the worker if it sleeps; the caller holds n.mu.
func (n *node) rouse() {
	if n.idle {
		n.idle = false
		n.wake <- struct{}{}
	}
}

// stop makes the worker send what is queued and owed, once, and exit. It does not wait.
func (n *node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.rouse()
}

// run is the worker. It connects before the first call asks it to.
func (n *node) run() error {
	defer close(n.exited)
	timer := time.NewTimer(0)
	defer timer.Stop()
	n.probe()
	n.guard.introduced()
	close(n.introduced)
	for n.await(timer) {
		// Let the other callers, and the other calls of the same round, queue up first:
		// one yield made the batches large enough for a third more throughput.
		runtime.Gosched()
		if n.down() {
			n.probe()
		} else {
			n.turn()
		}
	}
	n.settleUp()
	return nil
}

func (n *node) down() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault != nil
}

// await blocks until there is something to do; false means that the worker should exit.
func (n *node) await(timer *time.Timer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if n.fault == nil && len(n.queue) > 0 {
			return true
		}
		if n.stopping {
			return false
		}
		delay, planned := n.nextDue(n.clock())
		if planned && delay <= 0 {
			return true
		}
		n.idle = true
		n.mu.Unlock()
		if planned {
			timer.Reset(delay)
			select {
			case <-n.wake:
			case <-timer.C:
			}
		} else {
			<-n.wake
		}
		n.mu.Lock()
		if !n.idle { // roused, perhaps only just now: take the place in wake back
			select {
			case <-n.wake:
			default:
			}
		}
		n.idle = false
	}
}

// nextDue returns how long the worker may sleep, if anything is planned.
func (n *node) nextDue(now clock.Instant) (time.Duration, bool) {
	if n.fault != nil {
		return n.probeAt.Left(now), true
	}
	return n.ledger.nextDue(now)
}

// turn sends one batch: debts and releases first, then what else is queued.
func (n *node) turn() {
	n.collect()
	n.plan()
	execErr := n.send()
	fault := n.faultIn(execErr)
	if fault == nil {
		fault = n.identify(n.dials.Load() == 0 && n.hasGrants(execErr))
	}
	rejected := n.conclude(fault, len(n.commands) > 0)
	n.deliver(execErr)
	reject(rejected, fault) // after the batch: a release among them must know that its acquire was cut off
	clear(n.batch)
	clear(n.commands)
}

// hasGrants reports whether the batch has acquire votes that may not count.
func (n *node) hasGrants(execErr error) bool {
	for i := range n.commands {
		c := &n.commands[i]
		if call := c.calls[0]; call.op().acquires() && c.outcome(0, execErr).vote == granted {
			return true
		}
	}
	return false
}

// deliver hands each call its answer. Grants of a node that may have forgotten keys become
// failures; the token that they left is known to be there.
func (n *node) deliver(execErr error) {
	for i := range n.commands {
		c := &n.commands[i]
		for j, call := range c.calls {
			switch {
			case call.debt != nil:
				n.settle(c, call.debt, execErr)
			case call.ask != nil:
				reply, err := c.reply(execErr)
				if err != nil {
					err = explain(err)
				}
				call.ask.heed(reply, err)
			case call.op().acquires():
				a := c.outcome(j, execErr)
				if a.vote == granted && !n.identified {
					a.vote, a.err = failed, errors.New("connected anew, and has not told whether it restarted")
				}
				n.vouch(call, a)
			default:
				call.round.answer(call.index, c.outcome(j, execErr))
			}
		}
	}
}

func reject(calls []*call, why error) {
	for _, c := range calls {
		switch {
		case c.ask != nil:
			c.ask.heed(nil, why)
		case c.round != nil:
			c.round.answer(c.index, unsent(why))
		}
	}
}

// collect takes debts that are due and queued calls into the batch.
func (n *node) collect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock()
	n.batch = n.ledger.take(n.batch[:0], now, maxBatch)
	room := min(maxBatch-len(n.batch), len(n.queue))
	n.batch = append(n.batch, n.queue[:room]...)
	n.queue = slices.Delete(n.queue, 0, room)
	n.busy, n.since = true, now
}

// conclude ends the worker's stay in the client. With a fault it opens the breaker and
// returns what was queued, to be rejected; without one it closes it.
func (n *node) conclude(fault error, sent bool) (rejected []*call) {
	now := n.clock()
	n.mu.Lock()
	n.busy = false
	elapsed, was, calls := now.Since(n.since), n.fault, len(n.batch)
	switch {
	case fault != nil:
		if was == nil {
			n.downAt = now
			if now.Since(n.upSince) >= steadyPeriod {
				n.failures = 0
			}
		}
		n.probeAt = now.Add(probeDelay(n.failures, rand.Float64()))
		n.failures++
		rejected, n.queue = n.queue, nil
	case was != nil:
		n.upSince = now
	case sent && n.roundTrip == 0:
		n.roundTrip = elapsed
	case sent:
		n.roundTrip += (elapsed - n.roundTrip) / 8
	}
	n.fault = fault
	down := now.Since(n.downAt)
	n.mu.Unlock()

	switch {
	case fault != nil && was == nil:
		n.observer.nodeDown(n.name, fault)
		n.left()
	case fault == nil && was != nil:
		n.observer.nodeUp(n.name, down)
	}
	if sent && n.observer.trace.NodeDone != nil {
		n.observer.trace.NodeDone(NodeInfo{Node: n.name, Calls: calls, Elapsed: elapsed, Err: fault})
	}
	return rejected
}

// probeDelay is 0 for the first probe, since one cut connection does not make a node bad,
// then doubles from 50 ms to 2 s; jitter keeps several lockers from probing in step.
func probeDelay(failures int, random float64) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := min(probeMax, probeBase<<min(failures-1, 10))
	return delay/2 + time.Duration(random*float64(delay)/2)
}

// probe asks whether the node answers, by loading the scripts it will need anyway. Any
// reply will do: a node that refuses SCRIPT LOAD may still know the scripts.
func (n *node) probe() {
	n.mu.Lock()
	n.busy, n.since = true, n.clock()
	n.mu.Unlock()

	loads := loadCommands()
	execErr := n.exchange(loads...)
	var fault error
	if execErr != nil && (!isReply(execErr) || loads[0].Err() == nil) {
		fault = explain(execErr)
	}
	if fault == nil {
		fault = n.identify(true)
	}
	reject(n.conclude(fault, false), fault)
}

func loadCommands() []redis.Cmder {
	cmds := make([]redis.Cmder, len(allScripts))
	for i, s := range allScripts {
		cmds[i] = redis.NewCmd(context.Background(), "script", "load", s.body)
	}
	return cmds
}

// settleUp is the worker's last act: it pays what is owed, as long as the node answers and Close
// waits. What cannot be paid then lives out its ttl.
func (n *node) settleUp() {
	n.mu.Lock()
	queued := n.queue
	n.queue = nil
	debts := n.ledger.takeAll(nil)
	n.busy, n.since = true, n.clock()
	n.mu.Unlock()
	reject(queued, ErrClosed)
	end := n.clock().Add(2 * n.timeout)
	for chunk := range slices.Chunk(debts, maxBatch) {
		n.batch = append(n.batch[:0], chunk...)
		n.plan()
		if n.faultIn(n.send()) != nil || end.Over(n.clock()) {
			return
		}
	}
}

// inClient reports whether the worker is in a call of the client. If not, and it does not exit, it is
// in a function of Trace.
func (n *node) inClient() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.busy
}

// settle books the outcome of a debt.
func (n *node) settle(c *command, d *debt, execErr error) {
	if d.courtesy {
		return
	}
	_, err := c.reply(execErr)
	paid := err == nil || isReply(err)
	n.mu.Lock()
	n.ledger.settle(*d, paid, n.clock().Add(n.timeout))
	n.mu.Unlock()
	if paid && !d.again && n.observer.trace.DebtPaid != nil {
		n.observer.trace.DebtPaid(n.name, d.key.(string))
	}
}

// owe remembers a release that the node must still get.
func (n *node) owe(d debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.owe(d)
	n.rouse()
}

// oweAgain repeats a release after a node timeout: a command that was cut off may arrive
// after the release that was meant to follow it.
func (n *node) oweAgain(d debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.repeat(d, n.clock().Add(n.timeout))
	n.rouse()
}
