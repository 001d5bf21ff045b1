package sim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redlock-go/redlock"
)

// world is all that takes part in a run.
type world struct {
	plan     plan
	settings Settings
	log      *eventLog
	check    *checker
	nodes    []*node
	wires    [][]*wire // by client and node
	lockers  []*locker
}

func newWorld(p plan, s Settings) *world {
	log := &eventLog{begin: time.Now()}
	w := &world{plan: p, settings: s, log: log, check: newChecker(p, log)}
	rng := stream(p.seed, "nodes")
	for i := range p.nodes {
		age := 24 * time.Hour
		if p.young {
			age = 0
		}
		clock := nodeClock{time.Now(), time.Duration(rng.Int64N(int64(time.Hour))), p.rates[i]}
		n := newNode(i, log, clock, age)
		n.observer = w.executed
		w.nodes = append(w.nodes, n)
	}
	for c := range p.lockers {
		wires := make([]*wire, p.nodes)
		distance := time.Duration(0)
		if chance(rng, 0.4) {
			distance = between(rng, 100*time.Microsecond, p.timeout()/4)
		}
		for i := range wires {
			wires[i] = newWire(p, log, c, i, distance)
		}
		w.wires = append(w.wires, wires)
		w.lockers = append(w.lockers, &locker{world: w, id: c})
	}
	return w
}

// executed is called for every command that a node runs.
func (w *world) executed(e execution) {
	w.check.executed(e)
	if e.keys == nil {
		w.log.add(e.node.name, "%s from client %d", e.args[0], e.client)
	}
	for _, m := range e.wakes {
		w.log.add(e.node.name, "wakes client %d for %s", m.client, m.text)
	}
	for i, key := range e.keys {
		token := w.check.alias(e.tokens[i])
		before, after := w.check.alias(e.before[i]), w.check.alias(e.after[i])
		reply := e.reply
		if list, ok := reply.([]any); ok && e.apart && len(e.keys) > 1 {
			reply = list[i]
		}
		w.log.add(e.node.name, "%s %s %s: %v; %s → %s", e.args[0], key, token, reply, before, after)
	}
}

// eachDirection calls f for links between a client and a node; anyone stands for all.
func (w *world) eachDirection(client, node int, upwards, downwards bool, f func(*link)) {
	for c, wires := range w.wires {
		for n, wire := range wires {
			if client != anyone && client != c || node != anyone && node != n {
				continue
			}
			if upwards {
				f(wire.up)
			}
			if downwards {
				f(wire.down)
			}
		}
	}
}

func (w *world) eachLink(client, node int, f func(*link)) {
	w.eachDirection(client, node, true, true, f)
}

// locker is one process that uses the library. When it has closed its Locker it makes a new one.
type locker struct {
	*world
	id int

	mu         sync.Mutex
	generation int
	current    *redlock.Locker
	clients    []redis.UniversalClient
	closing    bool
	dead       bool // cut off for good, and its locks forgotten
}

func (l *locker) name() string { return fmt.Sprintf("c%d.%d", l.id, l.generation) }

// open makes the Locker and its clients; l.mu is held, or nobody else knows l.
func (l *locker) open() {
	l.clients = nil
	for i := range l.nodes {
		l.clients = append(l.clients, l.client(i))
	}
	var options []redlock.Option
	if l.plan.nodeTimeout > 0 {
		options = append(options, redlock.WithNodeTimeout(l.plan.nodeTimeout))
	}
	if l.plan.backoffBase > 0 {
		options = append(options, redlock.WithBackoff(l.plan.backoffBase, l.plan.backoffMax))
	}
	options = append(options, guardOptions(l.plan, l.settings)...)
	options = append(options, fenceOptions(l.plan, l.id)...)
	current, err := redlock.New(l.clients, options...)
	if err != nil {
		panic(err)
	}
	l.current = current
}

// client makes a client for a node, tuned as Open would do it, or, where the plan says so,
// with long timeouts and retries of its own.
//
// Open gives its clients the node timeout. Here each has a slightly shorter one: where the
// deadlines of several workers and of a round fall on one instant, their order is random.
func (l *locker) client(i int) redis.UniversalClient {
	timeout := l.plan.clientTimeout() - time.Duration(1+l.id*maxNodes+i)*50*time.Microsecond
	o := &redis.Options{
		Addr: l.address(i),
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			on := commands
			if _, ok := ctx.Deadline(); !ok { // the pool gives it one, a subscription has to see to that itself
				limited, cancel := context.WithTimeout(ctx, timeout-25*time.Microsecond)
				defer cancel()
				on, ctx = wakeUps, limited
			}
			c, err := l.wires[l.id][i].dial(ctx, l.nodes[i], l.id, on)
			if err != nil {
				return failedConn{err: err}, nil
			}
			return c, nil
		},
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize:                 64, PipelinePoolSize: -1,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
	}
	if l.plan.lazy > 0 {
		o.ContextTimeoutEnabled = false
		// Who waits for a place in the pool uses a timer that go-redis shares between all clients of
		// the process, and so between bubbles, which ends the process.
		o.PoolSize = 64
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 1, -1, -1 // at once: a delay would be random
	}
	return redis.NewClient(o)
}

// address is where the locker believes node i to be: gates are chosen by it.
func (l *locker) address(i int) string {
	if l.plan.speller == l.id {
		return fmt.Sprintf("redis-%d:6379", i+1)
	}
	return fmt.Sprintf("10.0.0.%d:6379", i+1)
}

// close closes the Locker, and its clients after it.
func (l *locker) close() {
	l.mu.Lock()
	name := l.name()
	l.mu.Unlock()
	l.check.closes(name + "-")
	l.log.add(name, "closed: %v", l.current.Close())
	for _, c := range l.clients {
		_ = c.Close()
	}
}

// reopen makes a new Locker in place of the closed one. It must come later than close, or
// two Lockers would send over the same links at the same instant.
func (l *locker) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = false
	l.generation++
	l.open()
}
