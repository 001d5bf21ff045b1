package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// link is one direction between one client and one node. What many connections send over it
// arrives in the order of each connection, and never at the same instant as what another
// link carries: goroutines that wake at one virtual instant run in random order.
type link struct {
	name string
	odds odds
	slot time.Duration // arrivals are at this many ns past a whole µs
	log  *eventLog

	mu       sync.Mutex
	rngs     [lanes]*rand.Rand
	delay    time.Duration
	patience time.Duration // what takes longer counts as kept by the network
	jitter   time.Duration
	extra    time.Duration // by a fault
	blocked  int           // by so many faults
	kept     []message     // while blocked
	opened   chan struct{} // closed when it is not blocked any more
	healed   bool          // no message is lost any more
}

// lane is a part of a link with arrivals and random numbers of its own. What a client does with
// commands and with its subscription may fall on the same instant, and is then in random order.
type lane int

const (
	commands lane = iota
	wakeUps
	lanes
)

// slots is how many connections of a lane have arrivals that cannot coincide.
const slots = 8

// odds are the chances of one message to meet with a fault.
type odds struct {
	lose, cut, straggle float64
	deafen              float64       // of one of a subscription to be lost
	longest             time.Duration // of straggling
}

// flow keeps one connection's direction in order, as TCP does.
type flow struct {
	lane lane
	slot time.Duration // arrivals are at this many ns past those of the link
	last time.Time     // arrival of the last message
	dead bool          // nothing arrives any more
}

type message struct {
	flow   *flow
	arrive func(late bool)
}

// fate is what becomes of a message.
type fate int

const (
	arrives fate = iota
	isLost       // and all that follow it on its connection
	isCut        // the connection breaks in its stead
	straggles
)

func (l *link) fateLocked(on lane) fate {
	if l.healed {
		return arrives
	}
	lose := l.odds.lose
	if on == wakeUps {
		lose = max(lose, l.odds.deafen)
	}
	switch x := l.rngs[on].Float64(); {
	case x < lose:
		return isLost
	case x < lose+l.odds.cut:
		return isCut
	case x < lose+l.odds.cut+l.odds.straggle:
		return straggles
	}
	return arrives
}

// send carries a message. arrive runs when it gets there; late says that the network kept it
// for longer than a healthy one would. broken runs in its stead when the connection is cut.
func (l *link) send(f *flow, arrive func(late bool), broken func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.dead {
		return
	}
	m := message{f, arrive}
	switch l.fateLocked(f.lane) {
	case isLost:
		f.dead = true
		l.log.add(l.nameOf(f.lane), "loses a message; its connection is silent from here on")
		return
	case isCut:
		l.log.add(l.nameOf(f.lane), "cuts the connection in place of a message")
		m.arrive = func(bool) { broken() }
	case straggles:
		d := time.Duration(l.rngs[f.lane].Int64N(int64(l.odds.longest)))
		l.log.add(l.nameOf(f.lane), "keeps a message for %v", d)
		l.schedule(m, l.latency(f.lane)+d)
		return
	}
	if l.blocked > 0 {
		l.kept = append(l.kept, m)
	} else {
		l.schedule(m, l.latency(f.lane))
	}
}

// finish carries the end of a connection. It draws nothing: the client closes one connection
// and dials the next at the same instant, in any order.
func (l *link) finish(f *flow, arrive func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := message{f, func(bool) { arrive() }}
	switch {
	case f.dead:
	case l.blocked > 0:
		l.kept = append(l.kept, m)
	default:
		l.schedule(m, l.delay+l.extra)
	}
}

// latency draws how long a message is under way if the link is not blocked; l.mu is held.
func (l *link) latency(on lane) time.Duration {
	return l.delay + time.Duration(l.rngs[on].Int64N(int64(l.jitter))) + l.extra
}

// onSlot moves an arrival to the next instant that belongs to a flow alone.
func (l *link) onSlot(t time.Time, f *flow) time.Time {
	return t.Truncate(time.Microsecond).Add(time.Microsecond + l.slot + f.slot)
}

// nameOf tells the lanes apart, or else their events of one instant would be in random order.
func (l *link) nameOf(on lane) string {
	if on == wakeUps {
		return l.name + "~"
	}
	return l.name
}

// schedule makes m arrive after d; l.mu is held.
func (l *link) schedule(m message, d time.Duration) {
	now := time.Now()
	due := now.Add(d)
	if due.Before(m.flow.last) {
		due = m.flow.last
	}
	due = l.onSlot(due, m.flow)
	m.flow.last = due
	late := due.Sub(now) > l.patience
	time.AfterFunc(due.Sub(now), func() { m.arrive(late) })
}

func (l *link) block() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked++; l.blocked == 1 {
		l.opened = make(chan struct{})
	}
}

// unblock lets what was kept arrive, within spread: that of a connection given up long ago
// may come after what a new one sends.
func (l *link) unblock(spread time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked--; l.blocked > 0 {
		return
	}
	for _, m := range l.kept {
		l.schedule(m, time.Duration(l.rngs[m.flow.lane].Int64N(int64(spread))))
	}
	l.kept = nil
	close(l.opened)
}

func (l *link) slow(extra time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra += extra
}

// heal ends losses for good.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed = true
}

// cross waits as long as a message would be under way now, and longer if the link is blocked.
func (l *link) cross(ctx context.Context, f flow) error {
	l.mu.Lock()
	blocked, opened := l.blocked > 0, l.opened
	l.mu.Unlock()
	if blocked {
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	due := l.onSlot(time.Now().Add(l.latency(f.lane)), &f)
	l.mu.Unlock()
	select {
	case <-time.After(time.Until(due)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wire is both directions between one client and one node.
type wire struct {
	up, down *link

	mu    sync.Mutex
	dials [lanes]int
}

// flow is that of the next connection on a lane, in both directions.
func (w *wire) flow(on lane) flow {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials[on]++
	return flow{lane: on, slot: time.Duration(int(on)*slots + w.dials[on]%slots)}
}

// newWire makes the links between a client and a node; distance is what the client adds to
// the way to every node.
func newWire(p plan, log *eventLog, client, node int, distance time.Duration) *wire {
	name := fmt.Sprintf("wire %d-%d", client, node)
	rng := stream(p.seed, name)
	make := func(direction string, number int) *link {
		l := &link{
			name: fmt.Sprintf("c%d%sn%d", client, direction, node), odds: p.odds, log: log, healed: p.odds == odds{},
			slot:  time.Duration(number) * time.Duration(lanes) * slots,
			delay: p.delay + distance + time.Duration(rng.Int64N(int64(p.delaySpread))), jitter: p.jitter, patience: 2 * p.timeout(),
		}
		for i := range l.rngs {
			l.rngs[i] = stream(p.seed, fmt.Sprintf("%s %s %d", name, direction, i))
		}
		return l
	}
	number := (client*maxNodes + node) * 2
	return &wire{up: make(">", number), down: make("<", number+1)}
}
