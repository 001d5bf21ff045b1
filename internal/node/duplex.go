package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/wire"
)

const (
	greetMin   = 2 * time.Second  // a server may take so long to greet before it is dialled again
	idlePeriod = 10 * time.Second // an idle connection is asked something so often
	slowRounds = 4                // a connection may be silent for so many round trips
)

// Open makes a node over connections that the client makes and greets, and the node then reads and writes by itself. The
// client must dial by the Dialer.
func Open(o Options, client *redis.Client, dialer *Dialer) *Node {
	n := newNode(o)
	ctx, cancel := context.WithCancel(context.Background())
	n.carrier = &duplex{node: n, client: client, dialer: dialer, ctx: ctx, cancel: cancel, results: make(chan dialled, 1)}
	return n
}

// duplex carries calls over one connection that is written and read independently. While the connection is
// silent a second one may be tried beside it.
type duplex struct {
	node   *Node
	client *redis.Client
	dialer *Dialer
	ctx    context.Context // ends with the worker
	cancel context.CancelFunc
	conn   *conn // nil: not connected; written by the worker, with the node locked

	dialling  bool
	results   chan dialled
	dialFrom  time.Duration
	connectBy time.Duration // a node that is not connected by then is down
	noTrial   time.Duration // no second connection is tried before

	buf   []byte
	slots []slot
}

// dialled is what came of making a connection.
type dialled struct {
	link link
	took time.Duration
	err  error
}

// inClient is always false: who dials is told to stop, and does.
func (d *duplex) inClient() bool { return false }

func (d *duplex) connected() bool { return d.conn != nil && d.conn.failure() == nil }

func (d *duplex) oldest() time.Duration {
	if d.conn == nil {
		return never
	}
	return time.Duration(d.conn.oldest.Load())
}

func (d *duplex) connecting() bool { return d.dialling }

func (d *duplex) pending() bool { return d.oldest() != never }

func (d *duplex) turn(now time.Duration) {
	n := d.node
	select {
	case r := <-d.results:
		d.dialling = false
		d.dialDone(r, now)
	default:
	}
	if d.conn != nil {
		if err := d.conn.failure(); err != nil {
			d.lose(err, now)
		} else {
			d.listen(now)
		}
	}
	switch {
	case d.conn != nil:
		d.send(now)
	case !d.dialling && now >= n.probeAt && n.mayConnect():
		d.dial(now)
	case d.dialling && now >= d.lateAt() && !n.down():
		n.breakWith(fmt.Errorf("not connected within %v", now-d.dialFrom), now)
	}
}

// lateAt returns when a node that is being connected counts as down.
func (d *duplex) lateAt() time.Duration {
	if d.node.contact.Load() == 0 {
		return d.dialFrom + contactTimeouts*d.node.timeout
	}
	return d.connectBy
}

func (d *duplex) next(now time.Duration, queued bool) time.Duration {
	n := d.node
	due := never
	switch {
	case len(d.results) > 0, d.conn != nil && d.conn.failure() != nil, d.conn != nil && queued:
		return now
	case d.conn != nil:
		due = d.listenAt()
		if debt, planned := n.nextDebt(now); planned {
			due = min(due, debt)
		}
	case !d.dialling:
		due = n.probeAt
	case n.fault == nil:
		due = d.lateAt()
	}
	return due
}

// dial makes a connection in a goroutine of its own, which the worker waits for.
func (d *duplex) dial(now time.Duration) {
	n := d.node
	d.dialling, d.dialFrom = true, now
	limit := max(greetMin, 2*contactTimeouts*n.timeout)
	go func() {
		begin := n.clock()
		l, err := greet(d.ctx, d.client, d.dialer, limit)
		d.results <- dialled{link: l, took: n.clock().Since(begin), err: err}
		n.stir()
	}()
}

// dialDone takes a connection that was made, or the reason why not.
func (d *duplex) dialDone(r dialled, now time.Duration) {
	n := d.node
	trial := d.conn != nil
	switch {
	case r.err != nil && trial:
	case r.err != nil:
		n.breakWith(r.err, now)
		n.probeAt = max(now, d.dialFrom+n.probeAt-now) // the dial has taken a part of the delay
	case trial && d.conn.arrived.Load() > int64(d.dialFrom):
		r.link.end() // it was only slow
	default:
		if trial {
			d.drop(errSilent, true, now)
		}
		d.install(newConn(n, r.link, now), now)
	}
}

var errSilent = fmt.Errorf("the connection died without a word")

// install takes a new connection into use. It begins by asking the server who it is, and giving it the scripts.
func (d *duplex) install(c *conn, now time.Duration) {
	n := d.node
	n.mu.Lock()
	d.conn = c
	n.mu.Unlock()
	n.mend(now)
	go c.read()
}

// lose takes leave of a connection that is broken. If it was good for a while, that says little of the node: the next
// one is made at once, and what has no answer is sent again there. Or else the node is down.
func (d *duplex) lose(err error, now time.Duration) {
	n := d.node
	steady := now-n.upSince >= steadyPeriod || n.failures == 0
	d.connectBy = now + n.timeout
	d.drop(err, true, now)
	if steady {
		n.failures, n.probeAt = 1, now
		return
	}
	if probeDelay(n.failures, 0) < n.timeout/2 { // what waits may still be sent in time
		n.probeAt = now + probeDelay(n.failures, rand.Float64())
		n.failures++
		d.connectBy = n.probeAt + n.timeout
		return
	}
	n.breakWith(err, now)
}

// drop ends the connection. What it left without an answer is sent once more, or fails.
func (d *duplex) drop(err error, resend bool, now time.Duration) {
	n, c := d.node, d.conn
	n.mu.Lock()
	d.conn = nil
	n.mu.Unlock()
	c.end(err)
	c.link.end()
	<-c.exited
	var again, failed []*Call
	calls := int32(0)
	for _, s := range c.takeAll() {
		calls = max(calls, s.batch)
		if s.call.again || !resend || s.call.isOwn() {
			failed = append(failed, s.call)
		} else {
			s.call.again = true
			again = append(again, s.call)
		}
	}
	n.requeue(again)
	err = wire.Explain(err)
	if calls > 0 && n.hooks.Sent != nil {
		n.hooks.Sent(int(calls), now-c.since, err)
	}
	for _, call := range failed {
		call.fail(err)
	}
}

// listenAt returns when to look again whether the connection is alive.
func (d *duplex) listenAt() time.Duration {
	c := d.conn
	since := time.Duration(max(c.arrived.Load(), c.oldest.Load()))
	if c.oldest.Load() == int64(never) {
		return max(time.Duration(c.arrived.Load()), c.wrote) + idlePeriod
	}
	at := since + d.node.timeout
	if !d.dialling {
		at = min(at, max(d.noTrial, since+d.patience()))
	}
	return at
}

// patience is for how long a connection may be silent with a command under way before another one is tried beside it.
func (d *duplex) patience() time.Duration {
	return max(d.node.timeout/4, slowRounds*time.Duration(d.node.roundTrip.Load()))
}

// listen looks whether the connection is alive: a node that has said nothing for a node timeout is down.
func (d *duplex) listen(now time.Duration) {
	n, c := d.node, d.conn
	oldest := time.Duration(c.oldest.Load())
	silent := now - max(time.Duration(c.arrived.Load()), oldest)
	switch {
	case oldest == never:
		if now-max(time.Duration(c.arrived.Load()), c.wrote) >= idlePeriod {
			d.send(now, slot{call: &Call{Owner: nobody{}, Class: Question}})
		}
	case silent >= n.timeout:
		why := fmt.Errorf("no answer within %v", n.timeout)
		d.drop(why, false, now)
		n.breakWith(why, now)
	case silent >= d.patience() && !d.dialling && now >= d.noTrial:
		d.noTrial = now + steadyPeriod
		d.dial(now)
	}
}

// send writes what is queued, in one piece.
func (d *duplex) send(now time.Duration, ping ...slot) {
	n, c := d.node, d.conn
	d.buf, d.slots = d.buf[:0], append(d.slots[:0], ping...)
	if len(ping) > 0 {
		d.buf = wire.AppendCommand(d.buf, []any{"ping"})
	}
	d.buf, d.slots = c.introduction(d.buf, d.slots)
	for len(d.buf) < maxBytes && n.collect(now) {
		n.plan.make(n.batch)
		n.mu.Lock()
		single := n.single
		n.mu.Unlock()
		d.buf, d.slots = n.plan.encode(d.buf, d.slots, n, single)
		n.plan.clear()
		clear(n.batch)
	}
	if len(d.slots) == 0 {
		return
	}
	d.slots[len(d.slots)-1].batch = batchOf(d.slots)
	c.write(d.buf, d.slots, now)
	clear(d.slots)
	if cap(d.buf) > 2*maxBytes {
		d.buf = nil
	}
}

// batchOf counts the calls of a batch; -1 if all are the node's own.
func batchOf(slots []slot) (calls int32) {
	for i := range slots {
		if !slots[i].call.isOwn() {
			calls++
		}
	}
	if calls == 0 {
		return -1
	}
	return calls
}

// close ends the connection, and waits for the goroutines.
func (d *duplex) close(err error) {
	d.cancel()
	if d.dialling {
		if r := <-d.results; r.err == nil {
			r.link.end()
		}
		d.dialling = false
	}
	if d.conn != nil {
		d.drop(err, false, d.node.now())
	}
}
