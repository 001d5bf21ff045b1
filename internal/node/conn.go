package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// conn is a connection in use: the commands that have no answer yet, in their order. The worker writes, and a
// goroutine of the connection reads.
type conn struct {
	node   *Node
	link   link
	reader *wire.Reader
	since  time.Duration
	exited chan struct{} // closed when the reader is gone

	arrived atomic.Int64 // when something last did
	oldest  atomic.Int64 // when the oldest command without an answer was sent, or never
	told    atomic.Bool  // the server has said who it is

	mu      sync.Mutex
	slots   []slot // those from head on are open
	head    int
	broken  error
	asking  bool // who the server is has been asked, and not been answered
	loading bool // scripts are to be sent
	asked   clock.Instant

	wrote   time.Duration // the worker's own
	limited bool          // a deadline is set for writes
	group   []*Call       // the reader's own
}

func newConn(n *Node, l link, now time.Duration) *conn {
	c := &conn{node: n, link: l, since: now, exited: make(chan struct{}), wrote: now, loading: true}
	c.arrived.Store(int64(now))
	c.oldest.Store(int64(never))
	c.reader = wire.NewReader(c)
	return c
}

// Read is what the reader reads from.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.link.Read(p)
	c.arrived.Store(int64(c.node.now()))
	return n, err
}

func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// end marks the connection as broken; only the first reason counts.
func (c *conn) end(err error) {
	c.mu.Lock()
	if c.broken == nil {
		c.broken = err
	}
	c.mu.Unlock()
}

// introduction is what a new connection begins with: the question who the server is, which comes before all that may
// be a vote, and the scripts. It is repeated where the server could not say, or has lost the scripts.
func (c *conn) introduction(b []byte, slots []slot) ([]byte, []slot) {
	acquires := !c.told.Load() && c.node.hasAcquire()
	c.mu.Lock()
	asks, loads := !c.told.Load() && !c.asking && (c.loading || acquires), c.loading
	c.asking, c.loading = c.asking || asks, false
	if asks {
		c.asked = c.node.clock()
	}
	c.mu.Unlock()
	if asks {
		b = wire.AppendCommand(b, []any{"info", "server"})
		slots = append(slots, slot{call: &Call{Owner: c, Class: Question}})
	}
	if loads {
		for _, s := range c.node.scripts {
			b = wire.AppendCommand(b, s.Load())
			slots = append(slots, slot{call: &Call{Owner: nobody{}, Class: Question}})
		}
	}
	return b, slots
}

func (n *Node) hasAcquire() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.others.live() != nil
}

// Take, Keys and Answer make the connection the owner of its question who the server is.
func (c *conn) Take(*Call, bool) (wire.Command, bool) { return wire.Command{}, false }
func (c *conn) Keys(*Call) []any                      { return nil }

// Answer takes what the server says of itself.
func (c *conn) Answer(_ *Call, a Answer) {
	c.mu.Lock()
	c.asking = false
	c.mu.Unlock()
	if a.Err != nil {
		return
	}
	told := false
	if err := a.Reply.Err(); err != nil {
		told = c.node.hooks.Met("", err, c.asked)
	} else {
		told = c.node.hooks.Met(a.Reply.Text, nil, c.asked)
	}
	c.told.Store(told)
	c.node.introduce()
}

// deadlineFrom is how much must be under way for a write to get a deadline: less than that never blocks.
const deadlineFrom = 1 << 14

// write sends a batch. The slots are there before the first reply can be.
func (c *conn) write(b []byte, slots []slot, now time.Duration) {
	c.mu.Lock()
	if c.head > 64 && c.head > len(c.slots)/2 {
		n := copy(c.slots, c.slots[c.head:])
		clear(c.slots[n:])
		c.slots, c.head = c.slots[:n], 0
	}
	if c.head == len(c.slots) {
		c.oldest.Store(int64(now))
	}
	for i := range slots {
		slots[i].sent = now
	}
	c.slots = append(c.slots, slots...)
	open := len(c.slots) - c.head
	c.mu.Unlock()
	c.wrote = now
	if limit := len(b) > deadlineFrom || open > deadlineFrom/64; limit {
		_ = c.link.SetWriteDeadline(time.Now().Add(c.node.timeout))
		c.limited = true
	} else if c.limited {
		_ = c.link.SetWriteDeadline(time.Time{})
		c.limited = false
	}
	if _, err := c.link.Write(b); err != nil {
		// What has arrived, the reason perhaps, is read first.
		c.drain()
		c.end(err)
	}
}

// drain lets the reader read what has arrived already.
func (c *conn) drain() {
	_ = c.link.SetReadDeadline(time.Now().Add(beatPeriod))
	<-c.exited
}

// read hands out replies until the connection ends.
func (c *conn) read() {
	defer func() {
		c.node.stir()
		close(c.exited)
	}()
	for {
		v, err := c.reader.Read()
		if err != nil {
			c.end(err)
			return
		}
		s, ok := c.pop()
		if !ok {
			c.end(unasked(v))
			return
		}
		c.hear(s, v)
	}
}

// unasked is the error of a reply to nothing: a server may say why it closes the connection.
func unasked(v wire.Value) error {
	if err := v.Err(); err != nil {
		return &wire.Unreached{Err: err}
	}
	return errors.New("a reply to no command")
}

// pop takes the calls of the oldest command into the group, and returns its last slot.
func (c *conn) pop() (last slot, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.slots) {
		return slot{}, false
	}
	n := int(c.slots[c.head].more) + 1
	c.group = c.group[:0]
	for i := c.head; i < c.head+n; i++ {
		c.group = append(c.group, c.slots[i].call)
		last = c.slots[i]
		c.slots[i] = slot{}
	}
	if c.head += n; c.head == len(c.slots) {
		c.slots, c.head = c.slots[:0], 0
		c.oldest.Store(int64(never))
	} else {
		c.oldest.Store(int64(c.slots[c.head].sent))
	}
	return last, true
}

func (c *conn) takeAll() []slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots := c.slots[c.head:]
	c.slots, c.head = nil, 0
	c.oldest.Store(int64(never))
	return slots
}

// hear gives each call of the group its part of a reply.
func (c *conn) hear(last slot, v wire.Value) {
	n := c.node
	if last.batch != 0 {
		n.measured(int(last.batch), time.Duration(c.arrived.Load())-last.sent)
	}
	if wire.UnknownScript(v) && !c.group[0].known {
		c.mu.Lock()
		c.loading = true
		c.mu.Unlock()
		n.repeat(c.group)
		return
	}
	n.deliver(c.group, v, c.told.Load())
	clear(c.group)
	if n.ending.Load() && c.oldest.Load() == int64(never) {
		n.stir()
	}
}

// repeat sends calls again that the server has not executed.
func (n *Node) repeat(calls []*Call) {
	for _, call := range calls {
		call.known = true
	}
	n.requeue(calls)
}

// deliver gives each of the calls that shared a command its part of the reply.
func (n *Node) deliver(calls []*Call, v wire.Value, known bool) {
	if len(calls) > 1 && wire.RefusedTogether(v) {
		n.mu.Lock()
		n.single = true
		n.mu.Unlock()
		n.requeue(calls)
		return
	}
	each, split := wire.SplitReleases(v, len(calls))
	merged := calls[0].Class == Release && (len(calls) > 1 || split && !isWide(calls[0]))
	for i, call := range calls {
		reply := v
		if merged && split {
			reply = each[i]
		}
		n.judge(call, reply)
		call.Owner.Answer(call, Answer{Reply: reply, Known: known, Twice: call.again})
	}
}

// isWide reports whether a call is the release of several keys, which is answered by a list.
func isWide(c *Call) bool { return len(c.Owner.Keys(c)) > 1 }
