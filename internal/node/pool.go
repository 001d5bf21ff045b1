package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/wire"
)

const (
	maxFlights = 8                // pipelines under way at a time
	farAway    = time.Millisecond // round trips from which more than one is worth it
	askPeriod  = 5 * time.Second  // an idle node is asked something so often
	maxStale   = 32               // connections of a pool that are tried before a node counts as down
)

// Client is what a node needs of a client that is given to it.
type Client interface {
	Pipeline() redis.Pipeliner
}

// Over makes a node over a client that stays its owner's, with its own settings and connections. dials counts
// the client's new connections (CountDials). Where it is nil, or has counted none yet, connections may change
// unseen, so the server is asked who it is after every batch that may be a vote.
func Over(o Options, client Client, dials *atomic.Uint64) *Node {
	n := newNode(o)
	n.carrier = &pool{node: n, client: client, dials: dials, busy: make(map[any]int), identity: make(chan struct{}, 1)}
	return n
}

// pool carries calls in pipelines of the client, several at a time if the server is far away. Calls about one key
// never overtake each other: a key with a call under way waits.
type pool struct {
	node   *Node
	client Client
	dials  *atomic.Uint64
	inside atomic.Int32   // calls of the client under way
	group  sync.WaitGroup // of pipelines, at the end

	probing bool // the worker's own, as are the next ones
	lastAt  time.Duration
	started bool

	identity chan struct{} // 1 place: whoever asks the server who it is
	met      uint64        // the number of dials when the server last told; for the one in identity
	stale    atomic.Bool

	// Guarded by node.mu.
	flights []*flight
	busy    map[any]int // calls under way, by key
	probed  *probed
	brokeAt time.Duration // when a pipeline last broke
	blocked bool          // all that could be sent waits for calls under way
	trial   time.Duration // when the client was last asked beside a silent pipeline, 0: it is not
}

// flight is one pipeline under way.
type flight struct {
	calls    []*Call
	commands []*command
	sent     time.Duration
	heard    bool // its replies are there, and who the server is may still be asked
	dropped  bool // its calls have been answered, or are sent again: what comes of it does not matter any more
}

// probed is what came of a probe.
type probed struct {
	err  error
	asks bool // it was a probe, and not a batch of calls
}

// command is what travels as one Redis command: one call, or several releases.
type command struct {
	*redis.Cmd
	calls []*Call
}

// NoRetry keeps the client library from sending a command again after a lost reply: the
// second SET NX would meet the first one's key and read as a refusal by another holder.
func (c *command) NoRetry() bool { return true }

func newCommand(args []any, calls ...*Call) *command {
	return &command{Cmd: redis.NewCmd(context.Background(), args...), calls: calls}
}

func (p *pool) inClient() bool { return p.inside.Load() > 0 }

func (p *pool) connected() bool { return p.node.contact.Load() != 0 }

func (p *pool) oldest() time.Duration {
	oldest := never
	for _, f := range p.flights {
		if !f.dropped && !f.heard {
			oldest = min(oldest, f.sent)
		}
	}
	return oldest
}

func (p *pool) connecting() bool { return p.probing }

func (p *pool) pending() bool {
	for _, f := range p.flights {
		if !f.dropped {
			return true
		}
	}
	return false
}

func (p *pool) turn(now time.Duration) {
	n := p.node
	n.mu.Lock()
	done := p.probed
	p.probed = nil
	n.mu.Unlock()
	if done != nil {
		if done.asks {
			p.probing = false
		}
		if done.err != nil {
			n.breakWith(done.err, now)
		} else {
			n.mend(now)
		}
	}
	p.watch(now)
	switch {
	case !p.started || n.down():
		if !p.probing && now >= n.probeAt && n.mayConnect() {
			p.started = true
			p.probe(now)
		}
	case p.probing && n.contact.Load() == 0 && now >= contactTimeouts*n.timeout:
		n.breakWith(fmt.Errorf("not connected within %v", contactTimeouts*n.timeout), now)
	}
	if n.down() || n.contact.Load() == 0 {
		return
	}
	for p.send(now) {
	}
	if now-p.lastAt >= askPeriod && p.free() {
		p.lastAt = now
		p.fly(&flight{sent: now, commands: []*command{newCommand([]any{"ping"}, &Call{Owner: nobody{}, Class: Question})}})
	}
}

// next tells when the worker should look again; the caller holds the node.
func (p *pool) next(now time.Duration, queued bool) time.Duration {
	n := p.node
	due := never
	switch {
	case p.probed != nil:
		return now
	case n.fault != nil && !p.probing:
		due = n.probeAt
	case n.fault == nil && n.contact.Load() == 0:
		due = contactTimeouts * n.timeout
	case n.fault == nil && queued && !p.blocked && p.hasRoom() && p.canSend():
		return now
	case n.fault == nil:
		if len(p.flights) == 0 {
			due = p.lastAt + askPeriod
		}
		if debt, planned := n.nextDebt(now); planned && debt > now {
			due = min(due, debt)
		}
	}
	if oldest := p.oldest(); oldest != never {
		due = min(due, oldest+n.timeout)
		if p.trial == 0 {
			due = min(due, oldest+p.patience())
		}
	}
	return due
}

func (p *pool) patience() time.Duration {
	return max(p.node.timeout/4, slowRounds*time.Duration(p.node.roundTrip.Load()))
}

// hasRoom reports whether another pipeline may be sent; the caller holds the node. Near servers are better served by large
// batches, one at a time.
func (p *pool) hasRoom() bool {
	limit := 1
	if time.Duration(p.node.roundTrip.Load()) > farAway {
		limit = maxFlights
	}
	return len(p.flights) < limit || len(p.flights) < maxFlights && p.allDropped()
}

func (p *pool) allDropped() bool { return !p.pending() }

func (p *pool) free() bool {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return len(p.flights) == 0
}

// canSend reports whether a queued call waits for no other call about its key; the caller holds the node.
func (p *pool) canSend() bool {
	n := p.node
	if due, planned := n.nextDebt(0); planned && due <= 0 && n.ledger.out == 0 {
		return true
	}
	for _, f := range []*fifo{&n.urgent, &n.others} {
		for _, c := range f.calls[f.head:] {
			if !p.isBusy(c) {
				return true
			}
		}
	}
	return false
}

func (p *pool) isBusy(c *Call) bool {
	if len(p.busy) == 0 {
		return false
	}
	for _, key := range c.Owner.Keys(c) {
		if p.busy[key] > 0 {
			return true
		}
	}
	return false
}

// send starts one pipeline with what is queued.
func (p *pool) send(now time.Duration) bool {
	n := p.node
	n.mu.Lock()
	room := p.hasRoom()
	n.mu.Unlock()
	if !room || !n.collect(now) {
		return false
	}
	p.sort()
	if len(n.batch) == 0 {
		return false
	}
	n.plan.make(n.batch)
	f := &flight{sent: now, commands: p.commands()}
	n.plan.clear()
	sent := make(map[*Call]bool, len(f.calls))
	for _, c := range f.commands {
		f.calls = append(f.calls, c.calls...)
	}
	for _, c := range f.calls {
		sent[c] = true
	}
	n.mu.Lock()
	for _, c := range n.batch {
		if !sent[c] { // dropped by the plan
			p.occupy(c, -1)
		}
	}
	n.mu.Unlock()
	clear(n.batch)
	if len(f.commands) > 0 {
		p.lastAt = now
		p.fly(f)
	}
	return true
}

// sort keeps in the batch what waits for no other call, and puts the rest back. Calls of one key in one batch keep their order.
func (p *pool) sort() {
	n := p.node
	n.mu.Lock()
	kept := n.batch[:0]
	var urgent, others []*Call
	waits := make(map[any]bool)
	for _, c := range n.batch {
		held := p.isBusy(c)
		for _, key := range c.Owner.Keys(c) {
			held = held || waits[key]
		}
		switch {
		case !held:
			kept = append(kept, c)
			continue
		case c.Class.urgent():
			urgent = append(urgent, c)
		default:
			others = append(others, c)
		}
		for _, key := range c.Owner.Keys(c) {
			waits[key] = true
		}
	}
	n.urgent.pushFront(urgent)
	n.others.pushFront(others)
	n.batch = kept
	p.blocked = len(kept) == 0
	for _, c := range kept {
		p.occupy(c, 1)
	}
	n.mu.Unlock()
}

// occupy counts a call about its keys; the caller holds the node.
func (p *pool) occupy(c *Call, by int) {
	for _, key := range c.Owner.Keys(c) {
		if p.busy[key] += by; p.busy[key] <= 0 {
			delete(p.busy, key)
		}
	}
}

// commands makes the commands of a plan.
func (p *pool) commands() (commands []*command) {
	n := p.node
	n.mu.Lock()
	single := n.single
	n.mu.Unlock()
	freeing := append([]*Call(nil), n.plan.freeing...)
	for i, c := range n.plan.widely {
		commands = append(commands, newCommand(n.plan.wide[i].Args, c))
	}
	if single {
		for i := range freeing {
			args := wire.ReleaseArgs(nil, n.release, n.plan.releases[i:i+1])
			commands = append(commands, newCommand(args, freeing[i]))
		}
	} else if len(freeing) > 0 {
		commands = append(commands, newCommand(wire.ReleaseArgs(nil, n.release, n.plan.releases), freeing...))
	}
	for i, c := range n.plan.calls {
		commands = append(commands, newCommand(n.plan.cmds[i].Args, c))
	}
	return commands
}

// fly sends a pipeline from a goroutine of its own.
func (p *pool) fly(f *flight) {
	n := p.node
	n.mu.Lock()
	p.flights = append(p.flights, f)
	n.mu.Unlock()
	p.group.Go(func() {
		known, err := p.carry(f)
		p.land(f, known, err)
	})
}

// carry sends a pipeline and waits for its end. known tells whether the server that answered is known.
func (p *pool) carry(f *flight) (known bool, execErr error) {
	if p.stale.Swap(false) && p.refreshFor(f) {
		return false, errBroken
	}
	asks := false
	if !p.counts() {
		for _, c := range f.commands {
			asks = asks || c.calls[0].Class == Acquire || c.calls[0].isOwn() // idle: a restart is to be noticed soon
		}
	}
	execErr = p.exchange(f.commands...)
	p.node.mu.Lock()
	f.heard = true
	p.node.mu.Unlock()
	switch {
	case p.counts():
		known = p.identify()
	case asks: // apart, since some clients send the commands of a pipeline over several connections
		known = p.node.trusted || p.whoIs()
	}
	return known, execErr
}

// counts reports whether new connections are seen.
func (p *pool) counts() bool { return p.dials != nil && p.dials.Load() > 0 }

// identify asks the node who it is if a connection was made since it last told. A pool replaces connections without a word, so
// this comes after the batch and before its grants count: the server that executed it is the
// one that answers, or one started later still.
func (p *pool) identify() (known bool) {
	p.identity <- struct{}{}
	defer func() { <-p.identity }()
	for range 3 {
		dials := p.dials.Load()
		if dials == p.met {
			return true
		}
		if !p.whoIs() {
			return false
		}
		p.met = dials
	}
	return p.dials.Load() == p.met
}

// whoIs asks the server who it is.
func (p *pool) whoIs() (told bool) {
	info := newCommand([]any{"info", "server"})
	sent := p.node.clock()
	reply, err := replyOf(info.Cmd, p.exchange(info))
	if err != nil && !wire.IsReply(err) {
		return false
	}
	text, _ := reply.(string)
	return p.node.hooks.Met(text, err, sent)
}

// exchange sends commands as one pipeline and waits for all replies, as long as the client's settings say. The callers
// do not wait for it.
func (p *pool) exchange(commands ...*command) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*p.node.timeout)
	defer cancel()
	pipe := p.client.Pipeline()
	cmds := make([]redis.Cmder, len(commands))
	for i, c := range commands {
		cmds[i] = c
	}
	_ = pipe.BatchProcess(ctx, cmds...) // only queues
	p.inside.Add(1)
	defer p.inside.Add(-1)
	_, err := pipe.Exec(ctx)
	return err
}

// refreshFor refreshes before a flight. It reports whether the flight was given up meanwhile: what it carries is
// not wanted any more then, and must not be sent.
func (p *pool) refreshFor(f *flight) (dropped bool) {
	p.refresh()
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return f.dropped
}

// refresh tries connections of the client until one is good: those that lay idle beside one that broke may have
// broken too.
func (p *pool) refresh() {
	begin := p.node.now()
	for range maxStale {
		ping := newCommand([]any{"ping"})
		_, err := replyOf(ping.Cmd, p.exchange(ping))
		if err == nil || wire.IsReply(err) || p.node.now()-begin > p.node.timeout {
			return
		}
	}
}

// land hands out the answers of a pipeline.
func (p *pool) land(f *flight, known bool, execErr error) {
	n := p.node
	n.mu.Lock()
	for i, other := range p.flights {
		if other == f {
			p.flights = append(p.flights[:i], p.flights[i+1:]...)
			break
		}
	}
	p.blocked = false
	dropped := f.dropped
	f.dropped = true
	if !dropped {
		for _, c := range f.calls {
			p.occupy(c, -1)
		}
	}
	n.rouse()
	n.mu.Unlock()
	if dropped {
		return
	}
	var broken []*Call
	var cause error
	for _, c := range f.commands {
		reply, err := replyOf(c.Cmd, execErr)
		if err != nil && !wire.IsReply(err) {
			broken, cause = append(broken, c.calls...), err
			continue
		}
		p.hear(c, reply, err, known)
	}
	if cause != nil {
		p.broke(f, broken, cause)
	} else {
		n.measured(len(f.calls), n.now()-f.sent)
	}
}

// hear gives the calls of a command its reply.
func (p *pool) hear(c *command, reply any, err error, known bool) {
	n := p.node
	v, ok := wire.Of(reply)
	switch {
	case err != nil:
		v = wire.Value{Kind: wire.Failure, Text: err.Error()}
	case !ok:
		v = wire.Value{Kind: wire.Failure, Text: fmt.Sprintf("unexpected reply of type %T", reply)}
	}
	if wire.UnknownScript(v) && !c.calls[0].known {
		p.load()
		n.repeat(c.calls)
		return
	}
	n.deliver(c.calls, v, known)
}

// load gives the server the scripts.
func (p *pool) load() {
	loads := make([]*command, len(p.node.scripts))
	for i, s := range p.node.scripts {
		loads[i] = newCommand(s.Load())
	}
	_ = p.exchange(loads...)
}

// broke takes a pipeline that did not reach the server. What was sent for the first time is sent again, if the node was
// good until now.
func (p *pool) broke(f *flight, calls []*Call, cause error) {
	n := p.node
	cause = wire.Explain(cause)
	if n.hooks.Sent != nil {
		n.hooks.Sent(len(f.calls), n.now()-f.sent, cause)
	}
	var again, failed []*Call
	for _, c := range calls {
		if c.again || c.isOwn() {
			failed = append(failed, c)
		} else {
			c.again = true
			again = append(again, c)
		}
	}
	p.stale.Store(true)
	n.requeue(again)
	for _, c := range failed {
		c.fail(cause)
	}
	now := n.now()
	n.mu.Lock()
	soon := p.brokeAt > 0 && now-p.brokeAt < steadyPeriod
	p.brokeAt = now
	n.mu.Unlock()
	if len(failed) > 0 || soon {
		n.mu.Lock()
		if p.probed == nil {
			p.probed = &probed{err: cause}
		}
		n.rouse()
		n.mu.Unlock()
	}
}

// probe asks whether the node answers, by loading the scripts it will need anyway. Any
// reply will do: a node that refuses SCRIPT LOAD may still know the scripts.
func (p *pool) probe(now time.Duration) {
	n := p.node
	p.probing = true
	p.lastAt = now
	p.group.Go(func() {
		p.refreshIfStale()
		loads := make([]*command, len(n.scripts))
		for i, s := range n.scripts {
			loads[i] = newCommand(s.Load())
		}
		execErr := p.exchange(loads...)
		_, err := replyOf(loads[0].Cmd, execErr)
		if err != nil && wire.IsReply(err) {
			err = nil
		}
		if err == nil {
			if p.counts() {
				p.identify()
			} else {
				p.whoIs()
			}
			n.introduce()
		}
		n.mu.Lock()
		p.probed = &probed{err: err, asks: true}
		n.rouse()
		n.mu.Unlock()
	})
}

func (p *pool) refreshIfStale() {
	if p.stale.Swap(false) {
		p.refresh()
	}
}

// watch looks for pipelines that got no answer: after a while the client is asked beside them, on another connection, and
// if the node answers there they are given up; after a node timeout the node is down.
func (p *pool) watch(now time.Duration) {
	n := p.node
	n.mu.Lock()
	oldest := p.oldest()
	trying := p.trial != 0
	n.mu.Unlock()
	switch {
	case oldest == never:
	case now-oldest >= n.timeout:
		why := fmt.Errorf("no answer within %v", n.timeout)
		p.giveUp(never, why, false)
		n.breakWith(why, now)
	case now-oldest >= p.patience() && !trying:
		n.mu.Lock()
		p.trial = now
		n.mu.Unlock()
		p.group.Go(func() { p.tryBeside(now) })
	}
}

// tryBeside asks the client on another connection.
func (p *pool) tryBeside(from time.Duration) {
	n := p.node
	ping := newCommand([]any{"ping"})
	_, err := replyOf(ping.Cmd, p.exchange(ping))
	if err == nil || wire.IsReply(err) {
		p.giveUp(from-p.patience()+1, errSilent, true)
	}
	n.mu.Lock()
	p.trial = 0
	n.rouse()
	n.mu.Unlock()
}

// giveUp drops the pipelines that were sent before a moment.
func (p *pool) giveUp(before time.Duration, why error, resend bool) {
	n := p.node
	var again, failed []*Call
	n.mu.Lock()
	for _, f := range p.flights {
		if f.dropped || f.heard && resend || f.sent >= before {
			continue
		}
		f.dropped, p.blocked = true, false
		for _, c := range f.calls {
			p.occupy(c, -1)
			if c.again || c.isOwn() || !resend {
				failed = append(failed, c)
			} else {
				c.again = true
				again = append(again, c)
			}
		}
	}
	n.mu.Unlock()
	n.requeue(again)
	for _, c := range failed {
		c.fail(why)
	}
}

func (p *pool) close(err error) {
	p.giveUp(never, err, false)
	p.group.Wait()
}
