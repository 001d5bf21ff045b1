package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/clock"
)

// GuardMode controls whether nodes that may have lost keys in a restart may vote on acquires. See
// WithRestartGuard.
type GuardMode uint8

const (
	// GuardAuto withholds the votes of a node that was seen to restart, and of a node that had
	// only just started when it was first met. It makes one exception for the second: nodes that
	// were all started together, within about two seconds, are a new deployment. So are nodes
	// that come back together after a power cut; GuardStrict is for those who fear that. Nodes
	// that were restarted one after the other are no new deployment, however young they are. It
	// is the default.
	GuardAuto GuardMode = iota

	// GuardStrict makes no exception: it withholds the votes of young nodes even if all of them
	// were started together.
	GuardStrict

	// GuardOff counts the votes of restarted and of young nodes. A node that restarts without its
	// keys can then take part in a second grant of a key that is held: choose it only where nodes
	// keep every write. One check stays: a node whose clock was found to run ahead does not vote
	// for the same time as under GuardAuto.
	GuardOff
)

const (
	// startedTogether is by how much the starts of nodes that were started together may differ.
	// Uptimes are in whole seconds, so this is accepted whenever it is possible. Nodes that were
	// started 3 s apart are told apart in any case, and 5 s with servers before Redis 7.
	startedTogether = 750 * time.Millisecond

	// absentAfter is how long a node may be missing before the others are judged without it. A
	// minority that is not there yet must not keep a new deployment from working for a whole ttl.
	absentAfter = 45 * time.Second
)

// guard decides which acquire votes may not count: those of nodes that may have forgotten keys
// in a restart (the Redlock description's delayed restarts), and of nodes whose clock ran ahead.
type guard struct {
	mode   GuardMode
	maxTTL time.Duration
	drift  drift

	nodes []atomic.Pointer[identity] // read without the lock, replaced under it

	mu        sync.Mutex
	opened    clock.Instant
	strangers int      // nodes whose first contact is still under way
	complete  bool     // all nodes have been met …
	together  bool     // … and were started together
	postponed []func() // votes that wait for first contacts
}

// identity is what is known of when a node may have lost keys.
type identity struct {
	heard     bool          // the node has answered, whatever it said
	known     bool          // the node has told its run_id, at some time …
	silent    bool          // … but did not when it was last asked
	runID     string        // made anew at each start
	restarted bool          // the run_id has changed since we know the node
	started   clock.Instant // at the latest …
	earliest  clock.Instant // … and at the earliest
	restarts  int

	ahead   bool // its clock was found to run ahead …
	aheadAt clock.Instant
}

func newGuard(c *config, nodes int, now clock.Instant) *guard {
	g := &guard{
		mode: c.guard, maxTTL: c.maxTTL, drift: c.drift, opened: now,
		nodes: make([]atomic.Pointer[identity], nodes), strangers: nodes,
	}
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

// met books what a node told of itself between sent and now. A restart is dated to when it was
// noticed: keys that were lost in it had been given their ttl before. The uptime is not trusted
// for that, since a clock that is set at boot makes it too long. It dates a first contact.
func (g *guard) met(node int, s serverInfo, sent, now clock.Instant) (restarted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.identity(node)
	restarted = n.known && s.runID != "" && s.runID != n.runID
	switch {
	case s.runID == "":
	case restarted:
		n.restarted, n.started, n.restarts = true, now, n.restarts+1
	case !n.known:
		n.started = now.Add(-s.atLeast)
		n.earliest = sent.Add(-s.atMost)
	}
	n.heard, n.silent = true, s.runID == ""
	if s.runID != "" {
		n.known, n.runID = true, s.runID
	}
	g.nodes[node].Store(&n)
	if !g.complete {
		g.complete, g.together = g.allTogether(len(g.nodes))
	}
	return restarted
}

// allTogether reports whether at least so many nodes have told their age, and whether all that
// have may have been started together; the caller holds g.mu.
func (g *guard) allTogether(least int) (complete, together bool) {
	var first, last identity // the first to be started at the latest, the last at the earliest
	met, restarted := 0, false
	for i := range g.nodes {
		n := g.identity(i)
		switch restarted = restarted || n.restarted; {
		case !n.known:
			continue
		case met == 0:
			first, last = n, n
		case first.started.Since(n.started) > 0:
			first = n
		}
		if n.earliest.Since(last.earliest) > 0 {
			last = n
		}
		met++
	}
	if met < least {
		return false, false
	}
	return true, !restarted && last.earliest.Since(first.started) <= startedTogether
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

// window is how long a key may be held by somebody after a node has lost it. Other holders may have
// asked for as much as WithMaxTTL, or else for the same ttl. The holder measures its validity by
// its own clock and we measure the window by ours, each less than the drift allowance off the
// nodes' clocks: so twice that is added.
func (g *guard) window(ttl time.Duration) time.Duration {
	longest := max(ttl, g.maxTTL)
	return longest + 2*g.drift.allowance(longest)
}

// withheld returns why an acquire vote of a node may not count, nil if it may; errStrangers if
// that depends on nodes which have not been met yet.
func (g *guard) withheld(n identity, ttl time.Duration, now clock.Instant) error {
	window := g.window(ttl)
	if age := now.Ago(n.aheadAt); n.ahead && age < window {
		return fmt.Errorf("its clock ran ahead %v ago, vote withheld for %v", round3(age), round3(window-age))
	}
	if g.mode == GuardOff || !n.known {
		return nil
	}
	if n.silent {
		return errors.New("it told its run_id before and does not any more (INFO), so it may have restarted: its votes count when it tells it again")
	}
	age := now.Ago(n.started)
	left := window - age
	if left <= 0 {
		return nil
	}
	if n.restarted {
		return fmt.Errorf("restarted %v ago, vote withheld for %v", round3(age), round3(left))
	}
	if g.mode == GuardAuto {
		patience, strangers := g.patience(now)
		if strangers {
			return errStrangers
		}
		if left = min(left, patience); left <= 0 {
			return nil
		}
	}
	return fmt.Errorf("started %v ago and may have forgotten keys; its vote counts in %v", round3(age), round3(left))
}

var errStrangers = errors.New("some nodes have not been met")

// startedTogether reports whether all nodes have been met, and were started together.
func (g *guard) startedTogether() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.complete && g.together
}

// patience returns how much longer a young node has to wait for nodes that have not been met: 0
// or less if all nodes were started together, for ever if one was not. Or else strangers: first
// contacts that are under way will decide it.
func (g *guard) patience(now clock.Instant) (left time.Duration, strangers bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, together := g.allTogether(1)
	switch {
	case g.complete && g.together:
		return 0, false
	case g.complete, !together, g.mute():
		return math.MaxInt64, false
	}
	return absentAfter - now.Ago(g.opened), g.strangers > 0
}

// mute reports whether a node answers and does not tell its age: it may be old. The caller holds g.mu.
func (g *guard) mute() bool {
	for i := range g.nodes {
		if n := g.identity(i); n.heard && !n.known {
			return true
		}
	}
	return false
}

// vouch answers an acquire call once it is clear whether its grant may count.
func (n *node) vouch(c *call, a answer) {
	if a.vote == granted {
		switch doubt := n.guard.withheld(n.guard.identity(n.index), c.round.ttl, n.clock()); {
		case doubt == nil:
		case doubt == errStrangers && n.postpone(c, a):
			return
		case doubt == errStrangers: // met in this very moment
			n.vouch(c, a)
			return
		default:
			a.vote, a.err = failed, doubt
			if n.observer.trace.VoteWithheld != nil {
				n.observer.trace.VoteWithheld(n.name, c.round.claim.keys[0].(string), doubt)
			}
		}
	}
	c.round.answer(c.index, a)
}

// postpone is apart from vouch so that only a vote that is postponed is kept on the heap.
func (n *node) postpone(c *call, a answer) bool {
	return n.guard.postpone(func() { n.vouch(c, a) })
}

// identify sees to it that the identity of the node is known, for a batch that has been executed. A
// pool replaces connections without a word, so this comes after the batch and before its grants
// count: the server that executed it is the one that answers, or one started later still. The
// node is asked if a connection was made since it last told; and each time that there are grants
// where connections cannot be counted. The error is that of a node which cannot be reached.
func (n *node) identify(grants bool) error {
	n.identified = false
	for range 3 {
		dials := n.dials.Load()
		if dials == n.met && (dials > 0 || !grants) {
			n.identified = true
			return nil
		}
		told, err := n.ask(grants)
		if err != nil {
			return err
		}
		n.met = dials
		switch id := n.guard.identity(n.index); {
		case !told:
			n.met = never
			return nil
		case id.known && id.silent: // it may tell again on this connection
			n.met, n.identified = never, true
			return nil
		case dials == 0:
			n.identified = true
			return nil
		}
	}
	return nil
}

// never is no number of connections.
const never = math.MaxUint64

// ask asks the node who it is. told is false if it can tell but does not now, so that its grants do not count.
func (n *node) ask(grants bool) (told bool, err error) {
	if grants && n.dials.Load() == 0 && n.guard.mode == GuardOff {
		return true, nil // nobody wants to know
	}
	info := redis.NewCmd(context.Background(), "info", "server")
	sent := n.clock()
	execErr := n.exchange(info)
	text, err := (&command{Cmd: info}).reply(execErr)
	switch {
	case err == nil:
		server, _ := text.(string)
		if n.guard.met(n.index, parseServerInfo(server), sent, n.clock()) {
			n.observer.nodeRestarted(n.name)
		}
		return true, nil
	case !isReply(err):
		return false, explain(err)
	case n.guard.identity(n.index).known, notNow(err):
		return false, nil
	}
	n.guard.met(n.index, serverInfo{}, sent, n.clock())
	return true, nil
}

// notNow reports whether an error means that the node may tell later. Other errors come from servers,
// and from users of servers, that have no INFO: such a node is unknown, and counts.
func notNow(err error) bool {
	for _, prefix := range []string{"BUSY", "LOADING", "MASTERDOWN", "NOAUTH", "WRONGPASS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// serverInfo is what a node tells of itself.
type serverInfo struct {
	runID           string        // "" if it does not tell it
	atLeast, atMost time.Duration // its age
}

// parseServerInfo reads the reply to INFO server. The uptime is the difference of two times of day
// in whole seconds, so the age may be a second more or less. From Redis 7 on the server tells its
// time in µs beside it, of the same reading: then the second in which it started is known. That
// reading may be a tenth of a second old.
func parseServerInfo(text string) (s serverInfo) {
	uptime, fraction := time.Duration(0), time.Duration(-1)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case name == "run_id":
			s.runID = value
		case name == "uptime_in_seconds" && err == nil:
			uptime = time.Duration(max(0, min(number, int64(maxTTL/time.Second)))) * time.Second
		case name == "server_time_usec" && err == nil && number > 0:
			fraction = time.Duration(number%1e6) * time.Microsecond
		}
	}
	if s.atLeast, s.atMost = max(0, uptime-time.Second), uptime+time.Second; fraction >= 0 {
		s.atLeast, s.atMost = max(0, uptime-time.Second+fraction), uptime+fraction+100*time.Millisecond
	}
	return s
}

// lostTime returns by how much a node's clock has run ahead of what drift allows, judged by the
// life it had left for a key whose ttl was set by a command that was first sent at set; 0
// or less if it did not. The command ran at set or later, so no more than now − set has passed.
func lostTime(d drift, set, now clock.Instant, ttl, left time.Duration) time.Duration {
	return ttl - now.Since(set) - d.allowance(ttl) - left
}
