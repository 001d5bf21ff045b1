package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

const (
	probeBase    = 50 * time.Millisecond // delay before the second probe of a node that is down
	probeMax     = 2 * time.Second
	steadyPeriod = 2 * time.Second // a node that failed again within it was not really up
	never        = time.Duration(math.MaxInt64)
)

// Options are what a node is made with.
type Options struct {
	Name    string
	Index   int // among the nodes
	Timeout time.Duration
	Clock   func() clock.Instant
	Pulse   *Pulse
	Scripts []wire.Script // that every server must have
	Release wire.Script   // the one among them that releases
	Closed  error         // what calls get after Stop
	Trusted bool          // it does not matter whether the server was restarted
	Hooks   Hooks
}

// Hooks tell what happens, from the goroutine in which it does. No lock is held. Sent, Paid, Refusing may be nil.
type Hooks struct {
	// Met tells what the server answered to INFO server, when asked at sent on a new connection. It returns
	// false if the server cannot say now who it is: it is asked again, and its replies are not Known until then.
	Met func(info string, err error, sent clock.Instant) (told bool)

	Introduced func()                   // the first contact is over, well or badly; once
	Down       func(err error)          // calls fail from now on
	Up         func(down time.Duration) // they do not any more
	Refusing   func(err error)          // the server answers every call with this error; nil: no more
	Paid       func(key string)         // a debt

	// Sent tells that a batch of calls was answered, or why it did not reach the server.
	Sent func(calls int, elapsed time.Duration, err error)
}

// carrier brings calls to the server and answers back. Its methods belong to the worker, but for oldest.
type carrier interface {
	turn(now time.Duration)                            // does what is due, and sends what is queued
	next(now time.Duration, queued bool) time.Duration // when there is something to do; the node is locked
	oldest() time.Duration                             // when the oldest command without an answer was sent, or never
	connected() bool                                   // commands can be sent now
	pending() bool                                     // answers are still to be handed out; the node is locked
	connecting() bool                                  // a connection is being made
	inClient() bool                                    // a call of the client has not come back; the node is locked
	close(err error)                                   // ends all
}

// Node is one Redis server: the queue of calls for it, and the one worker that sends them. Because nobody
// else sends, calls reach the server in the order of the queue, and many share one write.
type Node struct {
	name    string
	index   int
	timeout time.Duration
	clock   func() clock.Instant
	pulse   *Pulse
	scripts []wire.Script
	release wire.Script
	closed  error
	trusted bool
	hooks   Hooks
	carrier carrier

	wake       chan struct{} // 1 place; filled when an idle worker gets something to do
	exited     chan struct{} // closed by the worker as its last act
	introduced chan struct{} // closed when the first contact is over
	contact    atomic.Int64  // when it was over, 0 before
	roundTrip  atomic.Int64  // smoothed
	ending     atomic.Bool   // Stop was called

	mu       sync.Mutex
	idle     bool // the worker waits for wake
	stopping bool
	urgent   fifo
	others   fifo
	purgeAt  int           // length of the queue at which dead calls are dropped
	fault    error         // the breaker: why the node is not asked; nil when it is
	downAt   clock.Instant // … since when
	ledger   ledger
	single   bool  // the server takes no command over several keys
	errors   int   // errors in a row that commands which set something were answered with
	refusing error // when these are too many

	// The worker's own.
	timer    *time.Timer
	timerAt  time.Duration // when it fires, 0: it does not
	failures int           // probes and connections in a row that failed soon
	probeAt  time.Duration // when down: the next probe
	lastTry  bool          // to connect, after Stop
	upSince  time.Duration
	batch    []*Call
	plan     plan
}

func newNode(o Options) *Node {
	return &Node{
		name: o.Name, index: o.Index, timeout: o.Timeout, clock: o.Clock, pulse: o.Pulse, scripts: o.Scripts,
		release: o.Release, closed: o.Closed, trusted: o.Trusted, hooks: o.Hooks,
		wake: make(chan struct{}, 1), exited: make(chan struct{}), introduced: make(chan struct{}), purgeAt: minPurge,
	}
}

const minPurge = 64

// now is the time by which the server is judged.
func (n *Node) now() time.Duration { return n.pulse.Now() }

// Submit queues a call, or says why the node cannot take it: it is down, or overdue and the call an acquire.
// It never blocks on the server.
func (n *Node) Submit(c *Call, now clock.Instant) error {
	n.pulse.touch(now)
	c.at = n.pulse.At(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopping:
		return n.closed
	case n.fault != nil:
		return n.fault
	case c.Class == Acquire:
		if age := n.age(c.at); age >= n.timeout {
			return fmt.Errorf("no answer for %v", age.Round(time.Millisecond))
		}
	}
	if n.urgent.len()+n.others.len() >= n.purgeAt {
		n.urgent.purge()
		n.others.purge()
		n.purgeAt = max(minPurge, 2*(n.urgent.len()+n.others.len()))
	}
	n.enqueue(c)
	n.rouse()
	return nil
}

func (n *Node) enqueue(c *Call) {
	if c.Class.urgent() {
		n.urgent.push(c)
	} else {
		n.others.push(c)
	}
}

// requeue puts calls back to the front, to be sent again.
func (n *Node) requeue(calls []*Call) {
	var urgent, others []*Call
	for _, c := range calls {
		if c.Class.urgent() {
			urgent = append(urgent, c)
		} else {
			others = append(others, c)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.urgent.pushFront(urgent)
	n.others.pushFront(others)
	n.rouse()
}

// age returns how old the oldest call is that has no answer, queued or sent; the caller holds n.mu. During the
// first contact, which takes longer, nothing is old.
func (n *Node) age(now time.Duration) time.Duration {
	if n.contact.Load() == 0 {
		return 0
	}
	oldest := n.carrier.oldest()
	for _, f := range []*fifo{&n.urgent, &n.others} {
		if c := f.live(); c != nil {
			oldest = min(oldest, max(c.at, time.Duration(n.contact.Load())))
		}
	}
	return max(0, now-oldest)
}

// Answers reports whether acquires are not refused at once.
func (n *Node) Answers(now clock.Instant) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault == nil && n.age(n.pulse.At(now)) < n.timeout
}

// Ask queues a command that is no lock's. heed is called once with the reply, or why there is none, unless an error says that
// the node does not take it.
func (n *Node) Ask(args []any, now clock.Instant, heed func(reply wire.Value, err error)) error {
	return n.Submit(&newQuestion(args, heed).Call, now)
}

// rouse wakes the worker if it sleeps; the caller holds n.mu.
func (n *Node) rouse() {
	if n.idle {
		n.idle = false
		n.wake <- struct{}{}
	}
}

func (n *Node) stir() {
	n.mu.Lock()
	n.rouse()
	n.mu.Unlock()
}

// Stop makes the worker send what is queued and owed, and exit. It does not wait.
func (n *Node) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.ending.Store(true)
	n.rouse()
}

// Exited returns a channel that is closed when the worker has exited.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// InClient reports whether a call of the client has not come back. If the worker does not exit and this is not so,
// it is in one of the hooks.
func (n *Node) InClient() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.carrier.inClient()
}

// Introduced returns a channel that is closed when the first contact is over, well or badly.
func (n *Node) Introduced() <-chan struct{} { return n.introduced }

// FirstContact returns for how much longer, at least, the node may take for calls that were submitted at began: a
// node timeout while the first contact goes on, and a node timeout from its end; 0 or less for later calls.
func (n *Node) FirstContact(began time.Duration, now clock.Instant) time.Duration {
	over := time.Duration(n.contact.Load())
	if over == 0 {
		return n.timeout
	}
	if began > over {
		return 0
	}
	n.mu.Lock()
	fault := n.fault
	n.mu.Unlock()
	if fault != nil {
		return 0
	}
	return over + n.timeout - n.pulse.At(now)
}

// contactTimeouts is how many node timeouts the first contact may take: a dial, a greeting and a first
// answer are five round trips.
const contactTimeouts = 5

// introduce ends the first contact, once.
func (n *Node) introduce() {
	if n.contact.CompareAndSwap(0, int64(max(1, n.now()))) {
		n.hooks.Introduced()
		close(n.introduced)
	}
}

// Run is the worker. It connects before the first call asks it to, and exits after Stop.
func (n *Node) Run() error {
	defer close(n.exited)
	n.timer = time.NewTimer(never)
	defer n.timer.Stop()
	n.carrier.turn(n.now())
	for n.await(never) {
		// Let the other callers, and the other calls of the same round, queue up first:
		// one yield made the batches large enough for a third more throughput.
		runtime.Gosched()
		n.carrier.turn(n.now())
	}
	n.settleUp()
	n.introduce()
	return nil
}

// await blocks until there is something to do, or limit is over; false means that the worker should exit.
func (n *Node) await(limit time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if n.stopping && limit == never {
			return false
		}
		now := n.now()
		queued := n.queued(now)
		due := min(limit, n.carrier.next(now, queued))
		if due <= now || limit != never && !queued && !n.carrier.pending() && !n.carrier.connecting() {
			return true
		}
		n.sleep(now, due)
	}
}

// queued reports whether there is something to send; the caller holds n.mu.
func (n *Node) queued(now time.Duration) bool {
	if n.urgent.live() != nil || n.others.live() != nil {
		return true
	}
	due, planned := n.nextDebt(now)
	return planned && due <= now
}

// nextDebt returns when debts are due, if there are any; the caller holds n.mu.
func (n *Node) nextDebt(now time.Duration) (time.Duration, bool) {
	if n.stopping {
		return now, n.ledger.len() > 0
	}
	if n.ledger.out > 0 {
		return never, false
	}
	left, planned := n.ledger.nextDue(n.clock())
	return now + max(0, left), planned
}

// sleep waits for rouse, no longer than until due; the caller holds n.mu. A timer that fires too early does no harm, so it is
// seldom set anew.
func (n *Node) sleep(now, due time.Duration) {
	if n.timerAt == 0 || n.timerAt > due {
		n.timer.Reset(due - now)
		n.timerAt = due
	}
	n.idle = true
	n.mu.Unlock()
	select {
	case <-n.wake:
	case <-n.timer.C:
		n.timerAt = 0
	}
	n.mu.Lock()
	if !n.idle { // roused, perhaps only just now: take the place in wake back
		select {
		case <-n.wake:
		default:
		}
	}
	n.idle = false
}

// collect takes debts that are due and queued calls into the batch, the urgent ones first.
func (n *Node) collect(now time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batch = n.batch[:0]
	limit := maxChunk
	if n.urgent.len()+n.others.len() > 0 {
		limit /= 2
	}
	if due, planned := n.nextDebt(now); planned && due <= now {
		for _, d := range n.ledger.take(limit, n.clock(), n.stopping) {
			n.ledger.out++
			n.batch = append(n.batch, newPayment(n, d))
		}
	}
	for _, f := range []*fifo{&n.urgent, &n.others} {
		for len(n.batch) < maxChunk && f.live() != nil {
			n.batch = append(n.batch, f.pop())
		}
	}
	return len(n.batch) > 0
}

// breakWith opens the breaker. What is queued is rejected, unless the next probe comes so soon that it may be sent in
// time.
func (n *Node) breakWith(why error, now time.Duration) {
	why = wire.Explain(why)
	if !n.down() && now-n.upSince >= steadyPeriod {
		n.failures = 0
	}
	delay := probeDelay(n.failures, rand.Float64())
	n.failures++
	n.probeAt = now + delay
	n.mu.Lock()
	was := n.fault
	n.fault = why
	if was == nil {
		n.downAt = n.clock()
	}
	rejected := append(n.urgent.takeAll(), n.others.takeAll()...)
	n.mu.Unlock()
	n.introduce()
	for _, c := range rejected {
		c.reject(why)
	}
	if was == nil {
		n.hooks.Down(why)
	}
}

// mend closes the breaker.
func (n *Node) mend(now time.Duration) {
	n.upSince = now
	n.mu.Lock()
	was, down := n.fault, n.clock().Since(n.downAt)
	n.fault = nil
	n.mu.Unlock()
	if was != nil {
		n.hooks.Up(down)
	}
}

func (n *Node) down() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault != nil
}

// probeDelay is 0 for the first probe, since one cut connection does not make a node bad,
// then doubles from 50 ms to 2 s; jitter keeps several lockers from probing in step.
func probeDelay(failures int, random float64) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := min(probeMax, probeBase<<min(failures-1, 10))
	return delay/2 + time.Duration(random*float64(delay)/2)
}

// settleUp is the worker's last act: it sends what is queued and owed to a server that answers, and waits for the answers.
func (n *Node) settleUp() {
	now := n.now()
	limit := now + 2*n.timeout
	if !n.ready() && n.owes() { // it may be back
		n.lastTry, n.probeAt = true, now
	}
	for ; now < limit && n.unsettled(now); now = n.now() {
		n.carrier.turn(now)
		n.await(limit)
	}
	n.carrier.close(n.closed)
	n.mu.Lock()
	rejected := append(n.urgent.takeAll(), n.others.takeAll()...)
	n.ledger = ledger{}
	n.mu.Unlock()
	for _, c := range rejected {
		c.reject(n.closed)
	}
}

func (n *Node) ready() bool { return n.carrier.connected() && !n.down() }

func (n *Node) owes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.len() > 0
}

// unsettled reports whether there is still something to send or to hear at the end.
func (n *Node) unsettled(now time.Duration) bool {
	if !n.ready() {
		return n.lastTry || n.carrier.connecting()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queued(now) || n.carrier.pending()
}

// mayConnect reports whether the server may be connected: not at the end, but for one last try.
func (n *Node) mayConnect() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	may := !n.stopping || n.lastTry
	n.lastTry = false
	return may
}

// measured books a batch that was answered.
func (n *Node) measured(calls int, elapsed time.Duration) {
	if was := n.roundTrip.Load(); was == 0 {
		n.roundTrip.Store(int64(elapsed))
	} else {
		n.roundTrip.Store(was + (int64(elapsed)-was)/8)
	}
	if n.hooks.Sent != nil && calls > 0 {
		n.hooks.Sent(calls, elapsed, nil)
	}
}

// maxErrors is how many errors in a row make a node one that refuses everything.
const maxErrors = 3

// judge watches for a server that answers every command that sets something with an error.
func (n *Node) judge(c *Call, reply wire.Value) {
	if c.Class != Acquire && c.Class != Renew {
		return
	}
	n.mu.Lock()
	was := n.refusing
	if err := reply.Err(); err == nil {
		n.errors, n.refusing = 0, nil
	} else if n.errors++; n.errors >= maxErrors && was == nil {
		n.refusing = wire.Explain(err)
	}
	now := n.refusing
	n.mu.Unlock()
	if was != now && n.hooks.Refusing != nil && (was == nil || now == nil) {
		n.hooks.Refusing(now)
	}
}

// Stats is a snapshot of a node.
type Stats struct {
	Fault     error // why calls fail at once; nil if they do not
	Refusing  error // what every command is answered with; nil if that is not so
	DownFor   time.Duration
	RoundTrip time.Duration
	Queued    int
	Debts     int
}

// Stats returns the state of the node.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	down := time.Duration(0)
	if n.fault != nil {
		down = n.clock().Since(n.downAt)
	}
	return Stats{
		Fault: n.fault, DownFor: down, Refusing: n.refusing, RoundTrip: time.Duration(n.roundTrip.Load()),
		Queued: n.urgent.len() + n.others.len(), Debts: n.ledger.len() + n.ledger.out,
	}
}
