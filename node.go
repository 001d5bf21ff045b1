package redlock

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/clock"
	remote "github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/wire"
)

// redisClient is what a node needs of its client.
type redisClient interface {
	Pipeline() redis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// node is one voting server as the lock sees it: its calls and debts are carried by remote.Node; here is what
// its votes are worth.
type node struct {
	*remote.Node
	name     string
	hash     uint64 // of its address, for the choice of gates
	client   redisClient
	timeout  time.Duration
	clock    func() clock.Instant
	guard    *guard
	observer *observer
	index    int    // among the nodes
	left     func() // tells who waits there that it is down

	connect func(remote.Options) *remote.Node
}

func newNode(name string, client redisClient, timeout time.Duration, now func() clock.Instant) *node {
	n := &node{name: name, hash: hashOf(canonical(name)), client: client, timeout: timeout, clock: now, left: nothing}
	n.connect = func(o remote.Options) *remote.Node { return remote.Open(o, nil, nil) }
	n.attach(remote.NewPulse(now, timeout))
	return n
}

// openNode makes a node with a client of its own from tuned options.
func openNode(o *redis.Options, nodeTimeout time.Duration) (*node, *redis.Client) {
	if o.Dialer == nil {
		o.Dialer = o.NewDialer()
	}
	dialer := remote.NewDialer(o.Dialer, cmp.Or(o.Network, "tcp"), o.Addr)
	o.Dialer = dialer.Dial
	client := redis.NewClient(o)
	n := newNode(o.Addr, client, nodeTimeout, clock.Now)
	n.connect = func(o remote.Options) *remote.Node { return remote.Open(o, client, dialer) }
	return n, client
}

// lendNode makes a node over a client that stays its owner's.
func lendNode(name string, client redis.UniversalClient, nodeTimeout time.Duration, now func() clock.Instant) *node {
	n := newNode(name, client, nodeTimeout, now)
	var dials *atomic.Uint64 // nil: nobody counts
	if single, ok := client.(*redis.Client); ok {
		dials = dialsOf(single)
	}
	n.connect = func(o remote.Options) *remote.Node { return remote.Over(o, client, dials) }
	return n
}

// attach makes what carries the calls. It runs when the locker starts it.
func (n *node) attach(pulse *remote.Pulse) {
	n.Node = n.connect(remote.Options{
		Name: n.name, Index: n.index, Timeout: n.timeout, Clock: n.clock, Pulse: pulse,
		Scripts: allScripts, Release: releaseScript, Closed: ErrClosed, Trusted: n.guard != nil && n.guard.mode == GuardOff,
		Hooks: remote.Hooks{
			Met:        n.met,
			Introduced: func() { n.guard.introduced() },
			Down:       n.wentDown,
			Up:         func(down time.Duration) { n.observer.nodeUp(n.name, down) },
			Refusing:   func(err error) { n.observer.nodeRefusing(n.name, err) },
			Paid: func(key string) {
				if n.observer.trace.DebtPaid != nil {
					n.observer.trace.DebtPaid(n.name, key)
				}
			},
			Sent: func(calls int, elapsed time.Duration, err error) {
				if n.observer.trace.NodeDone != nil {
					n.observer.trace.NodeDone(NodeInfo{Node: n.name, Calls: calls, Elapsed: elapsed, Err: err})
				}
			},
		},
	})
}

func (n *node) wentDown(err error) {
	n.observer.nodeDown(n.name, err)
	n.left()
}

// met books what the node says of itself on a connection, when asked at sent. It returns false where it can
// tell, but not now: its grants do not count until it has.
func (n *node) met(info string, err error, sent clock.Instant) (told bool) {
	if err != nil && (n.guard.identity(n.index).known || notNow(err)) {
		return false
	}
	s := parseServerInfo(info)
	if n.guard.met(n.index, s, sent, n.clock()) {
		n.observer.nodeRestarted(n.name)
	}
	return s.runID != "" || !n.guard.identity(n.index).known
}

// errAnew is why a grant does not count whose node has not said who it is.
var errAnew = errors.New("connected anew, and has not told whether it restarted")

// ask queues a command that has no part in a vote; heed is called once, with the reply as the client library
// returns it, also if the node does not take the command.
func (n *node) ask(args []any, now clock.Instant, heed func(reply any, err error)) (sent bool) {
	err := n.Ask(args, now, func(reply wire.Value, err error) {
		if err == nil {
			err = reply.Err()
		}
		if err != nil {
			heed(nil, explain(err))
			return
		}
		heed(reply.Any(), nil)
	})
	if err != nil {
		heed(nil, err)
	}
	return err == nil
}
