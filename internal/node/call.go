package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// Class decides in which order calls leave the queue, and which are refused when the node is overdue.
type Class uint8

const (
	Acquire  Class = iota + 1 // last, and refused
	Question                  // beside the acquires, but never refused
	Renew                     // before the others
	Release                   // likewise; it is sent even if nobody waits for it any more
)

func (c Class) urgent() bool { return c == Renew || c == Release }

// Call is one command for one node. Its fields are set before it is submitted, once.
type Call struct {
	Owner Owner
	Index int32 // for the owner
	Class Class

	again bool        // it has been sent once, over a connection that broke
	known bool        // the server did not know its script: it is sent once more, then no more
	gone  atomic.Bool // nobody wants it any more
	at    time.Duration
}

// Drop takes a call out of the queue if it has not been sent. It is not answered then. It never blocks.
func (c *Call) Drop() { c.gone.Store(true) }

// Owner is whose call it is. Its methods are called without a lock of the node held.
type Owner interface {
	// Take returns the command to send now, or reports that none is wanted any more. With again it
	// returns the second copy of a command whose first copy may have been executed.
	Take(c *Call, again bool) (cmd wire.Command, wanted bool)

	// Keys returns the keys that the command is about: commands about one key are never sent out of order.
	Keys(c *Call) []any

	// Answer tells what came of a call that was submitted without error, once. It must not block.
	Answer(c *Call, a Answer)
}

// Answer is what came of a call.
type Answer struct {
	Reply  wire.Value // valid until Answer returns
	Err    error      // why there is no reply; nil if there is one, even an error of the server
	Unsent bool       // the command never left
	Twice  bool       // the command was sent a second time, and the fate of the first copy is not known
	Known  bool       // the server that replied has told who it is, and has not restarted since
}

var errBroken = errors.New("connection broken, and not sent again in time")

// fail answers a call that nothing came back to.
func (c *Call) fail(err error) {
	c.Owner.Answer(c, Answer{Err: err, Twice: c.again})
}

// reject answers a call that waits in the queue.
func (c *Call) reject(err error) {
	if c.again {
		c.fail(err)
		return
	}
	c.Owner.Answer(c, Answer{Err: err, Unsent: true})
}

// question is a command of its own.
type question struct {
	Call
	args []any
	heed func(reply wire.Value, err error)
}

func newQuestion(args []any, heed func(reply wire.Value, err error)) *question {
	q := &question{args: args, heed: heed}
	q.Owner, q.Class = q, Question
	return q
}

func (q *question) Take(*Call, bool) (wire.Command, bool) { return wire.Command{Args: q.args}, true }
func (q *question) Keys(*Call) []any                      { return nil }
func (q *question) Answer(_ *Call, a Answer)              { q.heed(a.Reply, a.Err) }

// fifo is a queue of calls.
type fifo struct {
	calls []*Call
	head  int
}

func (f *fifo) len() int { return len(f.calls) - f.head }

func (f *fifo) push(c *Call) {
	if f.head > 32 && f.head > len(f.calls)/2 {
		n := copy(f.calls, f.calls[f.head:])
		clear(f.calls[n:])
		f.calls, f.head = f.calls[:n], 0
	}
	f.calls = append(f.calls, c)
}

func (f *fifo) pop() *Call {
	c := f.calls[f.head]
	f.calls[f.head] = nil
	if f.head++; f.head == len(f.calls) {
		f.calls, f.head = f.calls[:0], 0
	}
	return c
}

// pushFront puts calls back, in their order.
func (f *fifo) pushFront(calls []*Call) {
	if len(calls) > 0 {
		f.calls, f.head = append(append(make([]*Call, 0, len(calls)+f.len()), calls...), f.calls[f.head:]...), 0
	}
}

// live drops dead calls from the front, and returns the first that is left, nil for none. One that was sent before
// stays, since it has to be answered.
func (f *fifo) live() *Call {
	for f.len() > 0 {
		if c := f.calls[f.head]; c.again || !c.gone.Load() {
			return c
		}
		f.pop()
	}
	return nil
}

// purge drops all dead calls.
func (f *fifo) purge() {
	kept := f.calls[:0]
	for _, c := range f.calls[f.head:] {
		if c.again || !c.gone.Load() {
			kept = append(kept, c)
		}
	}
	clear(f.calls[len(kept):])
	f.calls, f.head = kept, 0
}

func (f *fifo) takeAll() []*Call {
	calls := f.calls[f.head:]
	*f = fifo{}
	return calls
}

// nobody is the owner of a command of the node itself, whose answer does not matter.
type nobody struct{}

func (nobody) Take(*Call, bool) (wire.Command, bool) { return wire.Command{}, false }
func (nobody) Keys(*Call) []any                      { return nil }
func (nobody) Answer(*Call, Answer)                  {}

// isOwn reports whether a call is one of the node itself, which is not sent again.
func (c *Call) isOwn() bool {
	switch c.Owner.(type) {
	case nobody, *conn:
		return true
	}
	return false
}
