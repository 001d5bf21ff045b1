package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// State is who holds a key, as the nodes said at about one moment. It is past when it is read:
// a key that was not held may be held by now, and the reverse.
type State struct {
	Key   string // as it was given to Inspect
	Held  bool   // a quorum of the configured nodes holds one and the same token; else it is not known to be held
	Token string // the value that this quorum holds, whoever wrote it

	// Owner is the owner part of the token; it is empty for values that this library did not write.
	Owner string

	// TTL is how long a quorum will hold the token if nobody renews it: the quorum-th largest of
	// the remaining lives, as the nodes told them. It is -1 for a quorum without an expiry.
	TTL time.Duration

	// Fence is the largest number that a quorum of nodes has reached for the key: the quorum-th
	// largest on the nodes that hold the token, and Lock.Fence of a holder that has one. It is 0
	// where there is none, or none that the nodes' user may read.
	Fence int64

	Nodes []NodeState // one per configured node, in their order
}

// NodeState is what one node said about a key. A node without it has no token, no TTL and no Err.
type NodeState struct {
	Node  string        // host:port, or the position of a client without one address
	Token string        // the value under the key, whoever wrote it
	TTL   time.Duration // its remaining life, in whole milliseconds; -1: the key has no expiry
	Err   error         // why nothing is known, or what is wrong with what is there
}

// Inspect asks all nodes who holds key, and changes nothing there. Its answer is for people and tools:
// no lock follows from it, and only an acquire can tell whether the key can be had.
//
// It waits for every node that may still answer, not for a quorum alone, up to the node timeout (WithNodeTimeout)
// or until ctx ends; a node that is known to be down holds up nobody. Close waits for it. Held is true
// only if a quorum told the same token. If missing answers might have completed one, the key is
// not known to be held. A node that holds another kind of value, a list for instance, has
// answered: it is named in its Err, with its TTL.
//
// Errors: ErrNoQuorum when fewer than a quorum of nodes answered, as a *QuorumError with each node's cause;
// the State is returned as well then, with Held false and what the others said, and is nil with every
// other error. ctx's error if that ended first; ErrClosed. A key that no lock can have is
// refused, and nothing is sent.
func (l *Locker) Inspect(ctx context.Context, key string) (*State, error) {
	if err := l.cfg.checkNames([]string{key}); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redlock: inspect %s: %w", quotedKey(key), err)
	}
	if !l.enter() {
		return nil, fmt.Errorf("redlock: inspect %s: %w", quotedKey(key), ErrClosed)
	}
	defer l.leave()

	start := l.clock()
	q := &inquiry{readings: make([]reading, len(l.nodes)), open: len(l.nodes), done: make(chan struct{})}
	q.ask(l.nodes, inspectArgs(l.cfg.prefix+key), start)
	if err := q.await(ctx, l.cfg.nodeTimeout); err != nil {
		return nil, fmt.Errorf("redlock: inspect %s: %w", quotedKey(key), err)
	}
	readings := q.heard(l.cfg.nodeTimeout)
	state := stateOf(key, l.quorum, readings)
	for i, n := range l.nodes {
		state.Nodes[i].Node = n.name
	}
	if e := shortfall(state, l.quorum, readings); e != nil {
		e.Elapsed = l.clock().Since(start)
		return state, e
	}
	return state, nil
}

// inspectArgs names the fence outside KEYS, where rights are checked beforehand: who has none to
// it can inspect keys all the same.
func inspectArgs(key string) []any {
	return []any{"evalsha", inspectScript.sha, 1, key, fenceName(key)}
}

// inquiry gathers what the nodes answer to one Inspect.
type inquiry struct {
	done chan struct{} // closed when all have answered

	mu       sync.Mutex
	readings []reading
	open     int // nodes that have not answered
}

func (q *inquiry) ask(nodes []*node, args []any, now clock.Instant) {
	for i, n := range nodes {
		ask := &question{args: args, heed: func(reply any, err error) { q.hear(i, readingOf(reply, err)) }}
		if err := n.submit(&call{ask: ask}, now); err != nil {
			ask.heed(nil, err)
		}
	}
}

func (q *inquiry) hear(i int, r reading) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readings[i] = r
	if q.open--; q.open == 0 {
		close(q.done)
	}
}

// await blocks until all nodes have answered or the timeout is over; an error is that of a ctx that
// ended before.
func (q *inquiry) await(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// heard returns a copy, since workers may still come with answers that nobody waits for.
func (q *inquiry) heard(timeout time.Duration) []reading {
	q.mu.Lock()
	defer q.mu.Unlock()
	readings := slices.Clone(q.readings)
	for i := range readings {
		if r := &readings[i]; !r.answered && r.err == nil {
			r.err = fmt.Errorf("no answer within %v", timeout)
		}
	}
	return readings
}

// reading is what one node told about a key.
type reading struct {
	answered bool
	holds    bool // a string: what can be a token, even if it is empty
	token    string
	left     time.Duration // -1: without expiry
	fence    int64
	err      error // why it has not answered, or what is wrong with what it holds
}

func readingOf(reply any, err error) reading {
	if err != nil {
		return reading{err: err}
	}
	if r, ok := readState(reply); ok {
		return r
	}
	return reading{err: unexpected(questionOp, reply).err}
}

// readState reads the reply of the inspect script.
func readState(reply any) (reading, bool) {
	list, _ := reply.([]any)
	if len(list) == 0 {
		return reading{}, false
	}
	switch {
	case len(list) == 1 && list[0] == int64(0):
		return reading{answered: true}, true
	case len(list) == 3 && list[0] == int64(2):
		kind, isText := list[1].(string)
		return readLife(list[2], reading{err: fmt.Errorf("holds a %.100s, not a lock", kind)}, isText)
	case len(list) == 4 && list[0] == int64(1):
		token, isToken := list[1].(string)
		text, isText := list[3].(string)
		fence, err := readFence(text)
		return readLife(list[2], reading{holds: true, token: token, fence: fence, err: err}, isToken && isText)
	}
	return reading{}, false
}

// readLife completes a reading by a PTTL. The key is missing if that says so: a node whose clock
// goes on inside scripts may drop the key between two commands.
func readLife(reply any, r reading, ok bool) (reading, bool) {
	left, isInt := reply.(int64)
	switch {
	case !ok || !isInt || left < ttlGone:
		return reading{}, false
	case left == ttlGone:
		return reading{answered: true}, true
	case left == -1:
		r.left = -1
	default:
		r.left = millis(left)
	}
	r.answered = true
	return r, true
}

func readFence(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, ok := whole(text)
	if !ok {
		return 0, fmt.Errorf("its fence %.100q is not a number", text)
	}
	return number, nil
}

// stateOf draws the conclusion from what the nodes told.
func stateOf(key string, quorum int, readings []reading) *State {
	s := &State{Key: key, Nodes: make([]NodeState, len(readings))}
	for i, r := range readings {
		s.Nodes[i] = NodeState{Token: r.token, TTL: r.left, Err: r.err}
	}
	holders := agreeing(quorum, readings)
	if len(holders) == 0 {
		return s
	}
	s.Held, s.Token, s.Owner = true, holders[0].token, ownerOf(holders[0].token)
	slices.SortFunc(holders, func(a, b reading) int { return cmp.Compare(uint64(b.left), uint64(a.left)) }) // -1 is the longest
	s.TTL = holders[quorum-1].left
	slices.SortFunc(holders, func(a, b reading) int { return cmp.Compare(b.fence, a.fence) })
	s.Fence = holders[quorum-1].fence
	return s
}

// agreeing returns the readings with the token that a quorum holds, if there is one.
func agreeing(quorum int, readings []reading) []reading {
	byToken := make(map[string][]reading)
	for _, r := range readings {
		if r.holds {
			byToken[r.token] = append(byToken[r.token], r)
		}
	}
	for _, same := range byToken {
		if len(same) >= quorum {
			return same
		}
	}
	return nil
}

// shortfall is the error of an Inspect that fewer than a quorum of nodes answered, else nil. A node
// that answered counts as a grant, whatever it holds.
func shortfall(s *State, quorum int, readings []reading) *QuorumError {
	e := &QuorumError{
		Op: questionOp.name, Keys: []string{s.Key}, Quorum: quorum,
		Nodes: make([]NodeError, len(s.Nodes)), class: ErrNoQuorum,
	}
	for i, r := range readings {
		e.Nodes[i].Node = s.Nodes[i].Node
		if r.answered {
			e.Granted++
			continue
		}
		e.Failed++
		e.Nodes[i].Err = r.err
	}
	if e.Granted >= quorum {
		return nil
	}
	return e
}
