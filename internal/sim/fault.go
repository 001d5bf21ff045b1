package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// fault is something that goes wrong for a while. It prints as its text.
type fault struct {
	text       string
	begin, end func() // end may be nil: the fault is but a moment
	starts     bool   // its end is the start of a node
}

// weather makes faults come and go until it is told to clear up.
type weather struct {
	*world
	rng *rand.Rand

	mu     sync.Mutex
	clear  bool
	active []*fault
	starts time.Time // the last start of a node so far, or planned
}

// run brings faults at random moments until the weather clears up.
func (w *weather) run() {
	if w.plan.calm == 0 {
		return
	}
	if w.plan.patchy {
		w.patch()
	}
	for {
		w.mu.Lock()
		calm := between(w.rng, w.plan.calm/8, w.plan.calm*4)
		f, lasts := w.draw(), w.lasting()
		w.mu.Unlock()
		time.Sleep(calm)
		if !w.bring(f, lasts) {
			return
		}
	}
}

// patch cuts every client off from a minority of the nodes, until the weather clears up.
func (w *weather) patch() {
	for c := range w.plan.lockers {
		for i := range (w.plan.nodes - 1) / 2 {
			node := (c + i) % w.plan.nodes
			w.bring(w.cutOff(fmt.Sprintf("client %d from node %d", c, node), c, node, true, true), forever)
		}
	}
}

// lasting draws how long a fault lasts: less than a node timeout, about a ttl, or much longer.
func (w *weather) lasting() time.Duration {
	ttl := max(w.plan.ttl, w.plan.timeout())
	return choose(w.rng,
		between(w.rng, time.Millisecond, w.plan.timeout()),
		between(w.rng, w.plan.timeout()/2, ttl),
		between(w.rng, ttl/4, ttl),
		between(w.rng, ttl, 4*ttl))
}

func (w *weather) bring(f *fault, lasts time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clear {
		return false
	}
	if f.end == nil {
		w.log.add("weather", "%s", f.text)
		f.begin()
		return true
	}
	if f.starts && w.plan.spaced(w.settings) {
		lasts = max(lasts, time.Until(w.starts.Add(w.plan.gap())))
		w.starts = time.Now().Add(lasts)
	}
	w.log.add("weather", "%s for %v", f.text, lasts)
	f.begin()
	w.active = append(w.active, f)
	time.AfterFunc(lasts, func() { w.end(f) })
	return true
}

func (w *weather) end(f *fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, g := range w.active {
		if f == g {
			w.log.add("weather", "over: %s", f.text)
			f.end()
			w.active = append(w.active[:i], w.active[i+1:]...)
			return
		}
	}
}

// clearUp ends all faults for good. Nodes that must not start at the same time take the time that they need.
func (w *weather) clearUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear = true
	if w.plan.spaced(w.settings) {
		w.mu.Unlock()
		time.Sleep(time.Until(w.starts) + time.Nanosecond)
		w.mu.Lock()
	}
	w.log.add("weather", "clears up")
	for _, f := range w.active {
		f.end()
	}
	w.active = nil
	w.eachLink(anyone, anyone, func(l *link) { l.heal() })
}

// draw picks a fault and its victim.
func (w *weather) draw() *fault {
	node, client := w.victim(), w.rng.IntN(w.plan.lockers)
	if w.plan.unguarded && chance(w.rng, 0.5) {
		key := fmt.Sprintf("key%d", w.rng.IntN(w.plan.keys))
		return &fault{text: fmt.Sprintf("node %d evicts %s", node, key), begin: func() { w.nodes[node].evict(key) }}
	}
	switch w.rng.IntN(12) {
	case 0, 1:
		return w.hang(node)
	case 2, 3:
		silent, memory := chance(w.rng, 0.3), chance(w.rng, 0.3)
		return w.crash(node, silent, memory || !w.plan.forgets(node, w.settings))
	case 4:
		return w.slow(fmt.Sprintf("node %d", node), anyone, node)
	case 5:
		return w.slow(fmt.Sprintf("client %d", client), client, anyone)
	case 6:
		return w.block(fmt.Sprintf("client %d from node %d", client, node), client, node)
	case 7:
		return w.block(fmt.Sprintf("client %d", client), client, anyone)
	case 8:
		return w.block(fmt.Sprintf("node %d", node), anyone, node)
	case 9, 10:
		return w.suspend(client)
	}
	if chance(w.rng, 0.5) {
		return &fault{text: fmt.Sprintf("node %d loses its scripts", node), begin: w.nodes[node].flushScripts}
	}
	return &fault{text: fmt.Sprintf("node %d's connections break", node), begin: w.nodes[node].breakConnections}
}

// victim picks a node, by preference one where somebody waits.
func (w *weather) victim() int {
	i, gates := w.rng.IntN(w.plan.nodes), []int{}
	if chance(w.rng, 0.7) {
		return i
	}
	for _, n := range w.nodes {
		if len(n.waitingLists()) > 0 {
			gates = append(gates, n.id)
		}
	}
	if len(gates) == 0 {
		return i
	}
	return gates[i%len(gates)]
}

func (w *weather) hang(i int) *fault {
	n := w.nodes[i]
	return &fault{text: fmt.Sprintf("node %d hangs", i), begin: n.hang, end: func() { n.resume(w.rng) }}
}

func (w *weather) crash(i int, silent, memory bool) *fault {
	text := fmt.Sprintf("node %d crashes", i)
	if silent {
		text += " with its machine"
	}
	if !memory {
		text += ", loses its data,"
	}
	n := w.nodes[i]
	return &fault{text: text, starts: true, begin: func() { n.crash(silent) }, end: func() { w.restart(i, memory) }}
}

// restart brings a node back.
func (w *world) restart(i int, memory bool) {
	w.nodes[i].restart(memory)
	if !memory {
		w.check.forgets(i)
	}
}

// suspend sends a client's machine to sleep. Nothing passes its links, which is all that its callers can see of it:
// goroutines cannot be made to sleep here. But its clock shows in the end what it would have. Its time of day
// may be set meanwhile, as it may at any time.
func (w *weather) suspend(client int) *fault {
	f := w.cutOff("", client, anyone, true, true)
	m := &w.lockers[client].machine
	set := choose[time.Duration](w.rng, 0, 0, 1, -1) * between(w.rng, time.Millisecond, time.Hour)
	begin, end := f.begin, f.end
	if chance(w.rng, 0.2) {
		return &fault{text: fmt.Sprintf("client %d's time of day is set by %v", client, set), begin: func() { m.set(set) }}
	}
	return &fault{
		text:  fmt.Sprintf("client %d's machine is suspended, and its time of day set by %v,", client, set),
		begin: func() { begin(); m.suspend() },
		end:   func() { m.set(set); m.resume(); end() },
	}
}

const anyone = -1

// slow makes links slower, upwards, downwards or both ways; at times by more than a call may
// take.
func (w *weather) slow(text string, client, node int) *fault {
	extra := between(w.rng, time.Millisecond, w.plan.timeout()*5/4)
	upwards, downwards := w.direction()
	return &fault{
		text:  fmt.Sprintf("%s is slower by %v (%s)", text, extra, arrows(upwards, downwards)),
		begin: func() { w.eachDirection(client, node, upwards, downwards, func(l *link) { l.slow(extra) }) },
		end:   func() { w.eachDirection(client, node, upwards, downwards, func(l *link) { l.slow(-extra) }) },
	}
}

func (w *weather) block(text string, client, node int) *fault {
	upwards, downwards := w.direction()
	return w.cutOff(text, client, node, upwards, downwards)
}

// cutOff keeps back what links carry until the fault is over.
func (w *weather) cutOff(text string, client, node int, upwards, downwards bool) *fault {
	spread := w.plan.timeout() * 9 / 10 // a release that is repeated after a node timeout comes later
	return &fault{
		text:  fmt.Sprintf("%s is cut off (%s)", text, arrows(upwards, downwards)),
		begin: func() { w.eachDirection(client, node, upwards, downwards, (*link).block) },
		end:   func() { w.eachDirection(client, node, upwards, downwards, func(l *link) { l.unblock(spread) }) },
	}
}

func (w *weather) direction() (upwards, downwards bool) {
	switch w.rng.IntN(4) {
	case 0:
		return true, false
	case 1:
		return false, true
	}
	return true, true
}

func arrows(upwards, downwards bool) string {
	switch {
	case !downwards:
		return "requests"
	case !upwards:
		return "replies"
	}
	return "both ways"
}
