package redlock

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// place says whether a node has the token.
type place uint8

const (
	absent place = iota // never sent there, or known to be gone
	maybe               // sent, and no answer that tells
	present
)

// claim is one token and what is known of it on every node. All rounds of a token share its
// mutex, so what one round learns the next one acts on.
type claim struct {
	*panel
	keys  []any // as stored; keys and token are boxed once for all commands
	token any

	mu    sync.Mutex
	ended bool          // no command that could set the token may leave a queue any more
	freed bool          // … and the token is to vanish from the nodes: after an undo or a release, not after a loss
	ttl   time.Duration // the longest that this claim has asked for
	past  time.Duration // the longest that others may have given the token before: by Resume alone
	spots []spot        // by node
}

// spot is what is known of a token on one node.
type spot struct {
	place place
	late  time.Duration // the shortest ttl of a command that was cut off and may still arrive; 0 for none
	cut   time.Duration // the same of those that can shorten the key's life: the node promises no more than that
	set   clock.Instant // when the command was first sent that gave the key its present life …
	ttl   time.Duration // … of this length; 0 if not known
	fence int64         // the number of the latest grant
}

// holders counts the nodes known to hold the token; the caller holds c.mu.
func (c *claim) holders() int {
	n := 0
	for _, s := range c.spots {
		if s.place == present {
			n++
		}
	}
	return n
}

// missingLife returns how much less of the key's life a renewal found on a node than can have
// passed; 0 or less if the node kept time. One whose clock runs ahead keeps less than it promises.
func (c *claim) missingLife(i int, a answer) time.Duration {
	s := c.spots[i]
	if !a.timed || s.ttl == 0 {
		return 0
	}
	ttl := s.ttl
	if s.late > 0 {
		ttl = min(ttl, s.late) // what was cut off may have arrived since
	}
	return lostTime(c.drift, s.set, c.clock(), ttl, a.left)
}

// outlived returns when the key has surely expired on every node, even by a slow clock, if nothing
// is sent from now on. The caller holds c.mu.
func (c *claim) outlived(now clock.Instant) clock.Instant {
	ttl := max(c.ttl, c.past)
	return now.Add(ttl + c.drift.allowance(ttl))
}

// owe books the release of all keys of the claim at a node.
func (c *claim) owe(i int, d debt) {
	d.token = c.token
	for _, key := range c.keys {
		d.key = key
		c.nodes[i].owe(d)
	}
}
