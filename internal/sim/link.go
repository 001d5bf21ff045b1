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
	rng      *rand.Rand
	delay    time.Duration
	patience time.Duration // what takes longer counts as kept by the network
	jitter   time.Duration
	extra    time.Duration // by a fault
	blocked  int           // by so many faults
	kept     []message     // while blocked
	opened   chan struct{} // closed when it is not blocked any more
	healed   bool          // no message is lost any more
}

// odds are the chances of one message to meet with a fault.
type odds struct {
	lose, cut, straggle float64
	longest             time.Duration // of straggling
}

// flow keeps one connection's direction in order, as TCP does.
type flow struct {
	last time.Time // arrival of the last message
	dead bool      // nothing arrives any more
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

func (l *link) fateLocked() fate {
	if l.healed {
		return arrives
	}
	switch x := l.rng.Float64(); {
	case x < l.odds.lose:
		return isLost
	case x < l.odds.lose+l.odds.cut:
		return isCut
	case x < l.odds.lose+l.odds.cut+l.odds.straggle:
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
	switch l.fateLocked() {
	case isLost:
		f.dead = true
		l.log.add(l.name, "loses a message; its connection is silent from here on")
		return
	case isCut:
		l.log.add(l.name, "cuts the connection in place of a message")
		m.arrive = func(bool) { broken() }
	case straggles:
		d := time.Duration(l.rng.Int64N(int64(l.odds.longest)))
		l.log.add(l.name, "keeps a message for %v", d)
		l.schedule(m, l.latency()+d)
		return
	}
	if l.blocked > 0 {
		l.kept = append(l.kept, m)
	} else {
		l.schedule(m, l.latency())
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
func (l *link) latency() time.Duration {
	return l.delay + time.Duration(l.rng.Int64N(int64(l.jitter))) + l.extra
}

// schedule makes m arrive after d; l.mu is held.
func (l *link) schedule(m message, d time.Duration) {
	now := time.Now()
	due := now.Add(d)
	if due.Before(m.flow.last) {
		due = m.flow.last
	}
	due = due.Truncate(time.Microsecond).Add(time.Microsecond + l.slot)
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
		l.schedule(m, time.Duration(l.rng.Int64N(int64(spread))))
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
func (l *link) cross(ctx context.Context) error {
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
	due := time.Now().Add(l.latency())
	l.mu.Unlock()
	due = due.Truncate(time.Microsecond).Add(time.Microsecond + l.slot)
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
}

// newWire makes the links between a client and a node; distance is what the client adds to
// the way to every node.
func newWire(p plan, log *eventLog, client, node int, distance time.Duration) *wire {
	rng := stream(p.seed, fmt.Sprintf("wire %d-%d", client, node))
	make := func(direction string, number int) *link {
		return &link{
			name: fmt.Sprintf("c%d%sn%d", client, direction, node), odds: p.odds, log: log, healed: p.odds == odds{},
			slot: time.Duration(number * 3), rng: rng,
			delay: p.delay + distance + time.Duration(rng.Int64N(int64(p.delaySpread))), jitter: p.jitter, patience: 2 * p.timeout(),
		}
	}
	number := (client*maxNodes + node) * 2
	w := &wire{up: make(">", number), down: make("<", number+1)}
	w.down.rng = stream(p.seed, fmt.Sprintf("wire %d-%d back", client, node))
	return w
}
