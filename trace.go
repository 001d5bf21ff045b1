package redlock

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// Trace is a set of functions that are called as things happen; any of them may be nil. They are
// called without a lock held, from the goroutine in which it happened: a slow one delays a
// caller or a node's worker. They may be called concurrently. Any of them may call Locker.Close, which
// then waits for four node timeouts at most, though the function's own caller cannot go on meanwhile.
type Trace struct {
	AttemptDone  func(AttemptInfo)           // one round over all nodes to acquire
	Waiting      func(WaitInfo)              // Acquire begins to wait, or goes on waiting
	Waited       func(WaitedInfo)            // an Acquire that had to wait is over
	Renewed      func(RenewalInfo)           // a renewal, by hand or automatic
	Lost         func(key string, err error) // err is what Lock.Err returns
	Released     func(key string, held time.Duration, err error)
	NodeDone     func(NodeInfo) // one round trip to a node
	NodeDown     func(node string, err error)
	NodeUp       func(node string, down time.Duration)
	VoteWithheld func(node, key string, err error) // see WithRestartGuard
	DebtPaid     func(node, key string)            // a release that had missed its node was delivered
}

// AttemptInfo is one attempt to acquire. Err is nil when it was won.
type AttemptInfo struct {
	Key     string
	Elapsed time.Duration
	Err     error // a *QuorumError
}

// WaitInfo is one stretch of waiting: Delay at most before the next attempt, of which Attempts have been
// made, woken from the waiting list at Gate or not. Without a Gate other callers of this Locker are first.
type WaitInfo struct {
	Key      string
	Attempts int
	Delay    time.Duration
	Gate     string
}

// WaitedInfo is one Acquire that had to wait. Err is what it returned.
type WaitedInfo struct {
	Key      string
	Attempts int
	Elapsed  time.Duration
	Err      error
}

// RenewalInfo is one renewal. Late is by how much an automatic renewal began after it was due: a
// process that has no time for its renewals shows here, and so do more locks than the nodes can renew,
// since a renewal waits until the nodes have answered others. Elapsed does not count that waiting.
type RenewalInfo struct {
	Key     string
	Elapsed time.Duration
	Late    time.Duration
	Until   time.Time
	Nodes   int
	Err     error // nil when a quorum held
}

// NodeInfo is one round trip: how many calls shared it, how long it took, and why it did not reach
// the node.
type NodeInfo struct {
	Node    string
	Calls   int
	Elapsed time.Duration
	Err     error
}

// Stats is a snapshot of a Locker.
type Stats struct {
	Holding  int    // locks held now
	Waiting  int    // callers of Acquire that have to wait now
	Attempts uint64 // to acquire: Attempts/Acquired were needed for a grant
	Acquired uint64 // locks granted
	Held     uint64 // attempts lost to another holder
	NoQuorum uint64 // attempts lost for another reason
	Renewed  uint64
	Failed   uint64 // renewals that failed
	Lost     uint64 // locks that were lost
	Released uint64
	Waited   uint64        // locks granted that had to be waited for …
	WaitTime time.Duration // … for so long in all
	Nodes    []NodeStats   // in the order of the nodes
}

// NodeStats is a snapshot of one node.
type NodeStats struct {
	Node      string
	Up        bool          // its last round trip reached it; a first contact that is under way counts as up
	Err       error         // why not
	RoundTrip time.Duration // smoothed over the latest batches; 0 before the first
	Queued    int           // calls that wait for the worker
	Debts     int           // releases owed to it
	Restarts  int           // seen since the Locker was made
}

// Stats returns counters and the state of every node. It does no I/O.
func (l *Locker) Stats() Stats {
	l.mu.Lock()
	holding := len(l.held)
	l.mu.Unlock()
	o := l.observer
	s := Stats{
		Holding: holding, Waiting: int(o.waiting.Load()),
		Acquired: o.acquired.Load(), Held: o.held.Load(), NoQuorum: o.noQuorum.Load(),
		Renewed: o.renewed.Load(), Failed: o.failed.Load(), Lost: o.lost.Load(), Released: o.released.Load(),
		Waited: o.waited.Load(), WaitTime: time.Duration(o.waitTime.Load()),
	}
	s.Attempts = s.Acquired + s.Held + s.NoQuorum
	for _, n := range l.nodes {
		s.Nodes = append(s.Nodes, n.stats())
	}
	return s
}

func (n *node) stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return NodeStats{
		Node: n.name, Up: n.fault == nil, Err: n.fault, RoundTrip: n.roundTrip, Queued: len(n.queue),
		Debts: n.ledger.len(), Restarts: n.guard.identity(n.index).restarts,
	}
}

// observer counts, traces and logs. No cost but the counters where nobody listens.
type observer struct {
	trace Trace
	log   *slog.Logger

	waiting, waitTime                               atomic.Int64
	acquired, held, noQuorum, renewed, failed, lost atomic.Uint64
	released, waited                                atomic.Uint64
}

func (o *observer) attemptDone(key string, elapsed time.Duration, failure *QuorumError) {
	switch {
	case failure == nil:
		o.acquired.Add(1)
	case failure.class == ErrHeld:
		o.held.Add(1)
	default:
		o.noQuorum.Add(1)
	}
	if o.trace.AttemptDone != nil {
		info := AttemptInfo{Key: key, Elapsed: elapsed}
		if failure != nil {
			info.Err = failure
		}
		o.trace.AttemptDone(info)
	}
}

func (o *observer) waitsFor(info WaitInfo, first bool) {
	if first {
		o.waiting.Add(1)
	}
	if o.trace.Waiting != nil {
		o.trace.Waiting(info)
	}
}

func (o *observer) waitDone(info WaitedInfo) {
	o.waiting.Add(-1)
	if info.Err == nil {
		o.waited.Add(1)
		o.waitTime.Add(int64(info.Elapsed))
	}
	if o.trace.Waited != nil {
		o.trace.Waited(info)
	}
}

func (o *observer) renewalDone(info RenewalInfo) {
	if info.Err == nil {
		o.renewed.Add(1)
	} else {
		o.failed.Add(1)
	}
	if o.trace.Renewed != nil {
		o.trace.Renewed(info)
	}
}

func (o *observer) releaseDone(key string, held time.Duration, err error) {
	o.released.Add(1)
	if o.trace.Released != nil {
		o.trace.Released(key, held, err)
	}
}

// watch tells of the loss of a lock when it comes, from a goroutine of its own, since the lock is
// locked at that moment.
func (o *observer) watch(k *Lock) {
	if o.trace.Lost == nil && o.log == nil {
		return
	}
	context.AfterFunc(k.life, func() {
		err := context.Cause(k.life)
		if !errors.Is(err, ErrLost) {
			return
		}
		if o.log != nil {
			o.log.Error("redlock: lock lost", "key", k.Key(), "error", err)
		}
		if o.trace.Lost != nil {
			o.trace.Lost(k.Key(), err)
		}
	})
}

func (o *observer) nodeDown(node string, err error) {
	if o.log != nil {
		o.log.Warn("redlock: node down", "node", node, "error", err)
	}
	if o.trace.NodeDown != nil {
		o.trace.NodeDown(node, err)
	}
}

func (o *observer) nodeUp(node string, down time.Duration) {
	if o.log != nil {
		o.log.Info("redlock: node up", "node", node, "down", down)
	}
	if o.trace.NodeUp != nil {
		o.trace.NodeUp(node, down)
	}
}

func (o *observer) nodeRestarted(node string) {
	if o.log != nil {
		o.log.Warn("redlock: node restarted: its votes are withheld for a ttl", "node", node)
	}
}

func (o *observer) clockAhead(node string, missing time.Duration) {
	if o.log != nil {
		o.log.Warn("redlock: a node's clock runs ahead: its votes are withheld for a ttl", "node", node, "missing", missing)
	}
}
