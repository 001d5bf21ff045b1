package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// GuardMode says what becomes of the acquire votes of nodes that may have forgotten keys in a
// restart. See WithRestartGuard.
type GuardMode uint8

const (
	// GuardAuto withholds the votes of a node that was seen to restart, and of one that is met
	// for the first time soon after its start, unless all nodes were that young when they were
	// met, which is taken for a fresh deployment. It is the default.
	GuardAuto GuardMode = iota

	// GuardStrict withholds the votes of young nodes even if all of them are young, as they
	// are after a power cut, or after restarts within the first ttl of a deployment.
	GuardStrict

	// GuardOff counts every vote. A node that restarts without its keys can then take part
	// in a second grant of a key that is held: choose it only where nodes keep every write.
	GuardOff
)

// guard decides which acquire votes may not count: those of nodes that may have forgotten keys
// in a restart (the Redlock description's delayed restarts), and of nodes whose clock ran ahead.
type guard struct {
	mode   GuardMode
	maxTTL time.Duration

	nodes []atomic.Pointer[identity] // read without the lock, replaced under it

	mu        sync.Mutex
	strangers int           // nodes whose first contact is still under way
	complete  bool          // all nodes have been met …
	oldest    time.Duration // … when the oldest of them was no older than this
	postponed []func()      // votes that wait for it
}

// identity is what is known of when a node may have lost keys.
type identity struct {
	known     bool          // the node has told its run_id
	runID     string        // made anew at each start
	restarted bool          // the run_id has changed since we know the node
	started   clock.Instant // at the latest
	earliest  clock.Instant // at the earliest, for a node met since
	restarts  int

	ahead   bool // its clock was found to run ahead …
	aheadAt clock.Instant
}

func newGuard(c *config, nodes int) *guard {
	g := &guard{mode: c.guard, maxTTL: c.maxTTL, nodes: make([]atomic.Pointer[identity], nodes), strangers: nodes}
	for i := range g.nodes {
		g.nodes[i].Store(&identity{})
	}
	return g
}

// introduced ends the first contact with a node, whether it answered or not.
func (g *guard) introduced() {
	g.mu.Lock()
	g.strangers--
	var votes []func()
	if g.strangers == 0 {
		votes, g.postponed = g.postponed, nil
	}
	g.mu.Unlock()
	for _, vote := range votes {
		vote()
	}
}

// postpone keeps a vote until all first contacts are over; false if they are.
func (g *guard) postpone(vote func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.strangers > 0 {
		g.postponed = append(g.postponed, vote)
	}
	return g.strangers > 0
}

// met books the answer of a node to INFO. A restart is dated to when it was noticed: keys that
// were lost in it had been given their ttl before. A first contact is dated by the node's
// uptime, give or take a second: it is the difference of two times in whole seconds.
func (g *guard) met(node int, runID string, uptime time.Duration, now clock.Instant) (restarted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.identity(node)
	restarted = n.known && runID != "" && runID != n.runID
	switch {
	case runID == "":
		n.known = false // not told any more
	case restarted:
		n.restarted, n.started = true, now
		n.earliest = now.Add(-maxTTL) // there was a life before
		n.restarts++
	case !n.known && !n.restarted:
		n.started = now.Add(-max(0, uptime-time.Second))
		n.earliest = now.Add(-(uptime + time.Second))
	}
	if runID != "" {
		n.known, n.runID = true, runID
	}
	g.nodes[node].Store(&n)
	if !g.complete {
		g.meetLast(now)
	}
	return restarted
}

// ranAhead books that a node's clock ran ahead: it may have dropped keys before their time.
func (g *guard) ranAhead(node int, now clock.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.identity(node)
	n.ahead, n.aheadAt = true, now
	g.nodes[node].Store(&n)
}

func (g *guard) identity(node int) identity { return *g.nodes[node].Load() }

// withheld returns why an acquire vote of a node may not count, nil if it may; errStrangers if
// that depends on nodes which have not been met yet. Other holders of the key may have asked for
// as much as WithMaxTTL, or else for the same ttl.
func (g *guard) withheld(n identity, ttl time.Duration, now clock.Instant) error {
	window := max(ttl, g.maxTTL)
	if age := now.Ago(n.aheadAt); n.ahead && age < window {
		return fmt.Errorf("its clock ran ahead %v ago, vote withheld for %v", round3(age), round3(window-age))
	}
	age := now.Ago(n.started)
	switch {
	case g.mode == GuardOff || !n.known || age >= window:
		return nil
	case !n.restarted && g.mode == GuardAuto:
		switch fresh, strangers := g.fresh(window, now); {
		case fresh:
			return nil
		case strangers:
			return errStrangers
		}
	}
	return fmt.Errorf("restarted %v ago, vote withheld for %v", round3(age), round3(window-age))
}

var errStrangers = errors.New("some nodes have not been met")

// fresh reports whether all nodes were surely younger than the window when the last of them was
// met: a fresh deployment, whose restarts have been seen ever since. One that may have been
// older shows that there was a life before the others' start. Or else strangers: first contacts
// that are under way will decide it.
func (g *guard) fresh(window time.Duration, now clock.Instant) (fresh, strangers bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.complete {
		return g.oldest < window, false
	}
	for i := range g.nodes {
		if n := g.identity(i); n.known && now.Since(n.earliest) >= window {
			return false, false
		}
	}
	return false, g.strangers > 0
}

// meetLast notes the age of the oldest node once all have been met; the caller holds g.mu.
func (g *guard) meetLast(now clock.Instant) {
	oldest := time.Duration(0)
	for i := range g.nodes {
		n := g.identity(i)
		if !n.known {
			return
		}
		oldest = max(oldest, now.Since(n.earliest))
	}
	g.complete, g.oldest = true, oldest
}

// vouch answers an acquire call once it is clear whether its grant may count.
func (n *node) vouch(r *round, a answer) {
	if a.vote == granted {
		switch doubt := n.guard.withheld(n.guard.identity(n.index), r.ttl, n.clock()); {
		case doubt == nil:
		case doubt == errStrangers && n.postpone(r, a):
			return
		case doubt == errStrangers: // met in this very moment
			n.vouch(r, a)
			return
		default:
			a.vote, a.err = failed, doubt
			if n.observer.trace.VoteWithheld != nil {
				n.observer.trace.VoteWithheld(n.name, r.claim.keys[0].(string), doubt)
			}
		}
	}
	r.answer(n.index, a)
}

// postpone is apart from vouch so that only a vote that is postponed is kept on the heap.
func (n *node) postpone(r *round, a answer) bool {
	return n.guard.postpone(func() { n.vouch(r, a) })
}

// parseServerInfo reads the reply to INFO server. Whoever does not tell a run_id is unknown.
func parseServerInfo(text string) (runID string, uptime time.Duration) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			runID = value
		case "uptime_in_seconds":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err == nil && seconds > 0 && seconds < int64(maxTTL/time.Second) {
				uptime = time.Duration(seconds) * time.Second
			} else if err == nil && seconds > 0 {
				uptime = maxTTL
			}
		}
	}
	return runID, uptime
}

// lostTime returns by how much a node's clock has run ahead of what drift allows, judged by the
// life it had left for a key whose ttl was set by a command that was first sent at set; 0
// or less if it did not. The command ran at set or later, so no more than now − set has passed.
func lostTime(d drift, set, now clock.Instant, ttl, left time.Duration) time.Duration {
	return ttl - now.Since(set) - d.allowance(ttl) - left
}
