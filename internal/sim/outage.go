package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// hang stops the process, as SIGSTOP does: its kernel goes on taking connections and data.
func (n *node) hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangs++
}

// resume lets the process work off what its sockets have kept: each connection in order, the
// connections in any order.
func (n *node) resume(rng *rand.Rand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hangs--; n.hangs > 0 {
		return
	}
	backlog := n.backlog
	n.backlog = nil
	rank := make(map[*session]int)
	for _, p := range backlog {
		if _, ok := rank[p.session]; !ok {
			rank[p.session] = rng.Int()
		}
	}
	slices.SortStableFunc(backlog, func(a, b parcel) int { return cmp.Compare(rank[a.session], rank[b.session]) })
	for _, p := range backlog {
		n.process(p)
	}
}

// crash ends the process, and what its sockets kept. Its connections break; silently, if the
// machine goes with it.
func (n *node) crash(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.crashes++
	n.silent, n.backlog = silent, nil
	n.breakAll(silent)
}

// restart brings a crashed node back, with its data or without.
func (n *node) restart(memory bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.SetTime(n.clock.now())
	if !memory {
		n.data.FlushAll()
	}
	if n.crashes--; n.crashes > 0 {
		return
	}
	n.restarts++
	n.started = n.clock.now()
	n.forgetScripts()
}

func (n *node) flushScripts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgetScripts()
}

// evict drops a key, as a server does that is short of memory, or an operator. The restart guard cannot see it.
func (n *node) evict(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.Del(key)
}

// breakConnections is a firewall that forgets, or CLIENT KILL.
func (n *node) breakConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breakAll(false)
}

func (n *node) breakAll(silent bool) {
	for _, s := range n.sessions {
		s.close()
		if !silent {
			s.send(nil, errReset)
		}
	}
	n.sessions = nil
}
