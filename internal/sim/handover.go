package sim

import (
	"slices"
	"time"
)

// handOvers judges how a key that many wait for goes from hand to hand while nothing goes wrong.
type handOvers struct {
	check *checker
	key   string
	limit time.Duration // a free key that somebody waits for is taken within it
	usual time.Duration // … and usually within this, by whom a release has woken; 0: not judged

	// Guarded by check.mu.
	free    time.Time // since when, or from when on, the key is free on all nodes
	woken   bool      // by a release: it did not just expire
	took    []time.Duration
	waiting []int // clients in the order in which they came; nil: not judged
}

// plays makes h what is judged from now on.
func (c *checker) plays(h *handOvers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hands = h
}

// frees notes that the key is free from t on; by a release or else by the end of its ttl.
func (h *handOvers) frees(t time.Time, released bool) {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	h.free, h.woken = t, released
}

// arrives notes that a client begins to wait.
func (h *handOvers) arrives(client int) {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	h.waiting = append(h.waiting, client)
}

// leaves notes that a client has given up, and that its locker has had the time to say so.
func (h *handOvers) leaves(client int) {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	h.waiting = slices.DeleteFunc(h.waiting, func(c int) bool { return c == client })
}

// wakes checks that a wake-up goes to the one who has waited for longest. The others may still get the
// key, if their back-off happens to end while it is free: so it is not the grants that are in order.
// check.mu is held.
func (h *handOvers) wakes(n *node, m wakeUp) {
	switch place := slices.Index(h.waiting, m.client); {
	case m.text != h.key || len(h.waiting) == 0 || place == 0:
	case place > 0:
		h.check.violate(InOrder, "%s woke client %d for %q, but client %d had come before",
			n.name, m.client, h.key, h.waiting[0])
	default:
		h.check.violate(InOrder, "%s woke client %d for %q, which waits no more, in place of client %d",
			n.name, m.client, h.key, h.waiting[0])
	}
}

// takes notes a grant.
func (h *handOvers) takes(o *operation, client int) {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	h.waiting = slices.DeleteFunc(h.waiting, func(c int) bool { return c == client })
	took := time.Since(h.free)
	if took > h.limit {
		h.check.violate(KeyIsTaken, "%q was free for %v, more than %v, until %s got it", h.key, took, h.limit, o.name)
	}
	if h.woken {
		h.took = append(h.took, took)
	}
}

// nobody notes that the key is not taken at all.
func (h *handOvers) nobody() {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	h.check.violate(KeyIsTaken, "%q has been free for %v, and nobody of those who wait gets it", h.key, time.Since(h.free))
}

// judge looks at how long hand-overs took as a rule.
func (h *handOvers) judge() {
	h.check.mu.Lock()
	defer h.check.mu.Unlock()
	slices.Sort(h.took)
	if len(h.took) < 3 || h.usual == 0 {
		return
	}
	if median := h.took[(len(h.took)-1)/2]; median > h.usual {
		h.check.violate(WakingWorks, "half of %d hand-overs of %q took more than %v: %v",
			len(h.took), h.key, h.usual, h.took)
	}
}
