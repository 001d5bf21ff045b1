package sim

import "time"

// fences is what the checker knows of numbers.
type fences struct {
	stored [maxNodes]map[string]int64 // by node and key
	begun  map[string]time.Time       // by token: when a node executed the first command with it
	forgot time.Time                  // when a node last lost its data
	grants map[string][]*numbered     // by key
}

// numbered is a grant and who keeps its number.
type numbered struct {
	name      string
	fence     int64
	begun, at time.Time
	kept      [maxNodes]bool // all the time since then, it or a larger one
}

func newFences() *fences {
	f := &fences{begun: make(map[string]time.Time), grants: make(map[string][]*numbered)}
	for i := range f.stored {
		f.stored[i] = make(map[string]int64)
	}
	return f
}

// executed notes the numbers that a command leaves on a node.
func (f *fences) executed(e execution) {
	for i, key := range e.keys {
		if _, ok := f.begun[e.tokens[i]]; !ok && !e.apart {
			f.begun[e.tokens[i]] = time.Now()
		}
		if e.numbers != nil {
			f.store(e.node.id, key, e.numbers[i])
		}
	}
}

func (f *fences) store(node int, key string, number int64) {
	f.stored[node][key] = number
	for _, a := range f.grants[key] {
		a.kept[node] = a.kept[node] && number >= a.fence
	}
}

// forgets notes that a node has lost its data.
func (c *checker) forgets(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fences
	f.forgot = time.Now()
	for key := range f.grants {
		f.store(node, key, 0)
	}
	clear(f.stored[node])
}

// numbers compares the fence of a grant with those before it; c.mu is held. It must be the larger one
// if no node had executed anything of this attempt when the other lock came back to its caller,
// and if since then one and the same quorum has kept that one's number, or no node has forgotten anything.
func (c *checker) numbers(o *operation) {
	f := c.fences
	if o.fence = o.lock.Fence(); o.fence > 0 != c.plan.fenced {
		c.violate(FencesGrow, "%s got fence %d", o.name, o.fence)
	}
	if !c.plan.fenced {
		return
	}
	b := numbered{name: o.name, fence: o.fence, begun: f.begun[o.lock.Token()], at: time.Now()}
	for _, key := range o.keys {
		for _, a := range f.grants[key] {
			keepers, forgotten := a.keepers(), f.forgot.After(a.begun)
			if a.refutes(b) && (keepers >= c.quorum || !forgotten) {
				c.violate(FencesGrow, "%s got %d for %q, but %s had got %d; kept by %d nodes, something forgotten since: %v",
					b.name, b.fence, key, a.name, a.fence, keepers, forgotten)
			}
		}
		grant := b
		for i := range grant.kept {
			grant.kept[i] = f.stored[i][key] >= b.fence
		}
		f.grants[key] = append(f.grants[key], &grant)
	}
}

// refutes reports whether b should have a larger number than a, or no smaller one where it is a resumption
// of the same lock, and has not.
func (a *numbered) refutes(b numbered) bool {
	if a.name == b.name {
		return b.fence < a.fence
	}
	return b.begun.After(a.at) && b.fence <= a.fence
}

func (a *numbered) keepers() (n int) {
	for _, kept := range a.kept {
		if kept {
			n++
		}
	}
	return n
}

// constant checks that a lock still has the fence that it got; c.mu is held.
func (c *checker) constant(o *operation) {
	if fence := o.lock.Fence(); fence != o.fence {
		c.violate(FencesGrow, "the fence of %s was %d and is %d", o.name, o.fence, fence)
	}
}
