package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// Rule is a promise of the library that a run can break.
type Rule string

// The rules.
const (
	OneHolder    Rule = "OneHolder"    // no two holders of a key are inside their validity at a time
	LossIsTold   Rule = "LossIsTold"   // a holder is told of its loss before anyone else gets the key
	KeysEnd      Rule = "KeysEnd"      // no key outlives its undo or release by more than plan.settling
	CallsReturn  Rule = "CallsReturn"  // every call comes back within its documented bound
	RenewalHolds Rule = "RenewalHolds" // a renewal succeeds only if a quorum still held the token
	HeldIsKept   Rule = "HeldIsKept"   // nobody deletes the token of a lock that is held
	FencesGrow   Rule = "FencesGrow"   // a grant's fence is above those of locks that were given before it began
	WaitersLeave Rule = "WaitersLeave" // a minute after the end no node has a waiting list
	KeyIsTaken   Rule = "KeyIsTaken"   // a free key that somebody waits for is taken within finale.limit, in fair weather
	WakingWorks  Rule = "WakingWorks"  // … as a rule within finale.usual
	InOrder      Rule = "InOrder"      // … and a release wakes whoever has waited for longest
)

// Violation is a rule that was broken.
type Violation struct {
	Rule Rule
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Rule, v.Text) }

// holding is a node's having executed a command that met the token under every key and left it there.
type holding struct {
	node int
	at   time.Time
}

// checker holds the rules against what happens, in true time. It sees what the lockers'
// callers see and what the nodes execute, and knows nothing of the library's insides.
type checker struct {
	log    *eventLog
	plan   plan
	quorum int

	mu         sync.Mutex
	operations map[string]*operation
	holders    map[string][]*operation // by key: granted, and not known to have ended
	stored     map[string]int          // by token: how many nodes have granted it
	early      map[string]string       // by token: who had not been told when a quorum had granted it
	holdings   map[string][]holding    // by token
	tokens     map[string]int          // by owner: how many have turned up
	aliases    map[string]string       // by token
	excused    map[string]bool         // node and token that was stored too late to be undone
	fences     *fences
	hands      *handOvers // of the key that lockers wait for in the finale
	violations []Violation
}

func newChecker(p plan, log *eventLog) *checker {
	return &checker{
		log: log, plan: p, quorum: p.nodes/2 + 1, fences: newFences(),
		operations: make(map[string]*operation), holders: make(map[string][]*operation),
		tokens: make(map[string]int), aliases: make(map[string]string),
		stored: make(map[string]int), early: make(map[string]string),
		holdings: make(map[string][]holding), excused: make(map[string]bool),
	}
}

// violate notes a broken rule; c.mu is held.
func (c *checker) violate(rule Rule, format string, args ...any) {
	v := Violation{rule, fmt.Sprintf(format, args...)}
	c.violations = append(c.violations, v)
	c.log.add("CHECKER", "%s", v)
}

func (c *checker) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.violations) > 0
}

// asks notes that an acquire begins.
func (c *checker) asks(name string, keys ...string) *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &operation{name: name, keys: keys}
	c.operations[name] = o
	return o
}

// gets notes that an acquire has come back, with its lock or without, and checks that it is
// alone. Looking at this moment is enough: a validity that is over is never prolonged.
func (c *checker) gets(o *operation, lock *redlock.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.returned, o.lock = true, lock
	if lock == nil {
		return
	}
	c.isGranted(o)
}

// isGranted checks a grant or a resumption; c.mu is held.
func (c *checker) isGranted(o *operation) {
	c.alone(o)
	for _, key := range o.keys {
		c.holders[key] = append(c.holders[key], o)
	}
	c.numbers(o)
}

// alone checks that nobody else holds a key of o; c.mu is held. Without the restart guard that is not promised.
func (c *checker) alone(o *operation) {
	if c.plan.unguarded {
		return
	}
	for _, h := range c.others(o) {
		if left := h.lock.Validity(); left > 0 {
			c.violate(OneHolder, "%s was granted %q while %s had %q, for %v more", o.name, o.keys, h.name, h.keys, left)
		} else {
			c.violate(LossIsTold, "%s was granted %q, and %s was not told that %q is over", o.name, o.keys, h.name, h.keys)
		}
	}
	if early, ok := c.early[o.lock.Token()]; ok {
		c.violate(LossIsTold, "a quorum of nodes had granted %q to %s, which got it later, when %s", o.keys, o.name, early)
	}
}

// others returns the holders of o's keys that have not been released or told of a loss.
func (c *checker) others(o *operation) (all []*operation) {
	for _, key := range o.keys {
		c.holders[key] = slices.DeleteFunc(c.holders[key], (*operation).isOver)
		for _, h := range c.holders[key] {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all
}

// releases notes that Release is about to be called.
func (c *checker) releases(o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.released.IsZero() {
		o.released = time.Now()
	}
	c.constant(o)
}

// renews checks a renewal that succeeded and was asked for at begin.
func (c *checker) renews(o *operation, begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held(o, begin)
	c.constant(o)
}

// held checks that a quorum of nodes had the token, under every key, when a renewal came that was
// asked for at begin; c.mu is held.
func (c *checker) held(o *operation, begin time.Time) {
	nodes := make(map[int]bool)
	for _, h := range c.holdings[o.lock.Token()] {
		if !h.at.Before(begin) {
			nodes[h.node] = true
		}
	}
	if len(nodes) < c.quorum {
		c.violate(RenewalHolds, "%s, on %d of %d", o.name, len(nodes), c.quorum)
	}
}

// closes notes that the locker named owner was closed.
func (c *checker) closes(locker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, o := range c.operations {
		if strings.HasPrefix(name, locker) {
			o.orphaned = true
		}
	}
}

// late notes a call that took longer than it may.
func (c *checker) late(who, call string, took, bound time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violate(CallsReturn, "%s: %s took %v of at most %v", who, call, took, bound)
}

// executed is called by the nodes for every command, with their lock held.
func (c *checker) executed(e execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range e.wakes {
		if c.hands != nil {
			c.hands.wakes(e.node, m)
		}
	}
	for i, token := range e.after {
		if o := c.operations[owner(token)]; o != nil && slices.Index(e.after, token) == i {
			c.meets(e, o, token)
		}
	}
	c.deleted(e)
	c.fences.executed(e)
}

// meets notes that a node has a token, under some or all keys of its operation, after a command; c.mu is held.
func (c *checker) meets(e execution, o *operation, token string) {
	switch all := len(o.keys); {
	case has(e.before, token) == all:
		c.holdings[token] = append(c.holdings[token], holding{e.node.id, time.Now()})
	case has(e.before, token) < has(e.after, token):
		c.excused[excuse(e.node.id, token)] = e.late && c.tooLate(o, token)
		if has(e.after, token) == all {
			c.grants(o, token)
		}
	}
}

// tooLate reports whether what stored a token, and was under way for more than two node
// timeouts, came when the release that should follow it had been sent and repeated.
func (c *checker) tooLate(o *operation, token string) bool {
	return !o.granted(token) || !o.released.IsZero() && time.Since(o.released) > c.plan.timeout()
}

// grants notes that a node has stored a token. If that makes a quorum, nobody else may be
// a holder any more, whenever the news arrives.
func (c *checker) grants(o *operation, token string) {
	c.stored[token]++
	if c.stored[token] != c.quorum || o.granted(token) {
		return
	}
	for _, h := range c.others(o) {
		c.early[token] = fmt.Sprintf("%s was valid for %v more", h.name, h.lock.Validity())
	}
}

// alias names a token in the log: by its owner and, as an Acquire makes many, by the order in
// which they turned up. The token itself is a random number.
func (c *checker) alias(token string) string {
	if token == "" {
		return "nothing"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.aliases[token]; !ok {
		name := owner(token)
		c.tokens[name]++
		c.aliases[token] = fmt.Sprintf("%s#%d", name, c.tokens[name])
	}
	return c.aliases[token]
}

func owner(token string) string {
	name, _, _ := strings.Cut(token, "/")
	return name
}

func excuse(node int, token string) string { return fmt.Sprintf("%d %s", node, token) }

// leftover checks what a node still stores once everything owed must have been paid.
func (c *checker) leftover(n *node, key, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.operations[owner(token)]
	if o != nil && o.ended(token) && !o.orphaned && !o.resumed && !c.excused[excuse(n.id, token)] {
		c.violate(KeysEnd, "%s still has the token of %s under %q", n.name, o.name, key)
	}
}

// remains notes a waiting list that should have ended.
func (c *checker) remains(n *node, list string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violate(WaitersLeave, "%s still has %q", n.name, list)
}
