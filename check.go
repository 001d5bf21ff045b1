package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// checkTimeouts is how many node timeouts a Check takes at most.
const checkTimeouts = 10

// Report is what Check found: what each node told of itself, and what follows from that.
type Report struct {
	Nodes    []NodeReport // one per configured node, in their order
	Findings []Finding    // the worst first, then in the order of the nodes, then by code
}

// NodeReport is what one node told of itself. Where it would not tell, texts hold "unknown", and
// durations and numbers are -1.
type NodeReport struct {
	Node string // host:port, or the position of a client without one address
	Err  error  // why it is unreachable, or stopped answering midway; what it told before stands below

	Version string        // with the product: "redis 7.0.15", "valkey 8.0.1", "memurai 4.2.3 (redis 7.4.9), Developer"
	RunID   string        // made anew at each start
	Role    string        // "master" or "slave"
	Uptime  time.Duration // in whole seconds

	RoundTrip   time.Duration // the fastest of a few, from this process's queue and back
	ClockOffset time.Duration // the node's time of day less this machine's; means nothing where ClockError is -1
	ClockError  time.Duration // ClockOffset is off by this at most: half the round trip; -1: the offset is unknown

	Persistence string // "appendfsync always", "appendfsync everysec", "appendfsync no" or "no append-only file"
	Eviction    string // maxmemory-policy
	MaxMemory   int64  // in bytes; 0: no limit is set

	Connections    int // clients connected now, this one among them
	MaxConnections int // maxclients
	Replicas       int // connected to it
}

// Check asks all nodes what they are and how they are set up, tries on each what a lock does there, and says
// what makes them unfit for locks. It is for people and tools, at a deployment or once an hour: no
// acquire looks at its answer, and locks in use are not disturbed.
//
// It writes nothing but one key on each node, the prefix of WithKeyPrefix and "redlock-check:" and a random part,
// with an expiry of some seconds, and takes it away again; and it sends one message to a channel that nobody
// listens to. Nodes are asked at the same time, each step by step. It takes a dozen round trips, and waits for first
// contacts that are under way. A node that is down or hangs from the start holds it up for three node timeouts
// (WithNodeTimeout) at most; it is back after ten in any case. Close ends it.
//
// A node that does not answer, or is forbidden to tell something, is no error: it is a Finding, or "unknown".
// So the Report is returned even if no node answers. Errors: ctx's error if that ended first; ErrClosed;
// the Report is nil then.
func (l *Locker) Check(ctx context.Context) (*Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redlock: check: %w", err)
	}
	if !l.enter() {
		return nil, fmt.Errorf("redlock: check: %w", ErrClosed)
	}
	defer l.leave()

	asking, cancel := context.WithTimeout(ctx, checkTimeouts*l.cfg.nodeTimeout)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	s := &survey{
		nodes: make([]facts, len(l.nodes)), quorum: l.quorum, guard: l.cfg.guard, maxTTL: l.cfg.maxTTL,
		nodeTimeout: l.cfg.nodeTimeout, drift: l.drift,
	}
	var group sync.WaitGroup
	for i, n := range l.nodes {
		group.Go(func() { s.nodes[i] = n.examine(asking, l.cfg.prefix, l.cfg.owner) })
	}
	group.Wait()
	s.together = l.guard.startedTogether()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("redlock: check: %w", ctx.Err())
	case l.life.Err() != nil:
		return nil, fmt.Errorf("redlock: check: %w", ErrClosed)
	}
	return s.report(), nil
}

func (s *survey) report() *Report {
	r := &Report{Nodes: make([]NodeReport, len(s.nodes)), Findings: s.findings()}
	for i := range s.nodes {
		r.Nodes[i] = s.nodes[i].NodeReport
	}
	return r
}

// errSlow is the cause of a node that answers each question in time and all of them not.
var errSlow = errors.New("answers too slowly: not all questions were answered within ten node timeouts")
