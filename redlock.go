package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/clock"
	remote "github.com/redlock-go/redlock/internal/node"
)

// Locker acquires locks on a quorum of the nodes it was made for. It is safe for concurrent
// use; one per process and set of nodes is enough for any number of keys.
type Locker struct {
	panel
	cfg config

	workers   errgroup.Group     // one per node, and those of listeners
	listeners []*listener        // one per node
	lines     lines              // of callers of Acquire
	renewals  renewals           // that are automatic
	own       []*redis.Client    // made by Open, closed by Close
	end       context.CancelFunc // of panel.life

	mu       sync.Mutex
	closed   bool
	attempts int           // calls under way; none is added once closed
	quiet    chan struct{} // closed when there are none any more
	held     map[*Lock]struct{}
}

// Open makes a Locker with clients of its own, tuned for locks, one for each URL:
//
//	redis://[user:password@]host[:port][/database]    (rediss:// for TLS)
//
// of which the parameters ?db=, ?client_name= and, with TLS, ?skip_verify= are understood. It
// connects in the background and does not wait: a node that is down now is asked again and
// again, and is no error. Open fails for options out of range, for no URLs, for a URL that
// cannot be used and for the same host and port given twice; no error shows more of a URL than
// host and port. Close the Locker to free its connections and goroutines.
func Open(urls []string, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	clientOptions, err := parseURLs(urls, cfg.nodeTimeout)
	if err != nil {
		return nil, err
	}
	clients := make([]*redis.Client, len(clientOptions))
	nodes := make([]*node, len(clientOptions))
	for i, o := range clientOptions {
		nodes[i], clients[i] = openNode(o, cfg.nodeTimeout)
	}
	return start(cfg, nodes, clients), nil
}

// New makes a Locker over clients that you own. It keeps their settings and never closes them.
// Each must lead to one independent node. No call waits for a client longer than the node
// timeout, whatever the client's timeouts and retries; a lock command is sent a
// second time only when its connection broke, and then counts once.
//
// A *redis.Client gets one hook that counts its connections, however many Lockers are made over it:
// a new connection may lead to a server that was restarted. Other clients (Ring, ClusterClient,
// wrappers, clones by WithTimeout) do not let their connections be counted. They cost one more
// question to the node for every batch that has an acquire, unless GuardOff is set.
//
// New fails for options out of range, for no clients, a nil client, a Ring of several servers, and
// where two clients have the same address. Close the Locker before the clients.
func New(clients []redis.UniversalClient, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	names, err := nameClients(clients)
	if err != nil {
		return nil, err
	}
	nodes := make([]*node, len(clients))
	for i, c := range clients {
		nodes[i] = lendNode(names[i], c, cfg.nodeTimeout, clock.Now)
	}
	return start(cfg, nodes, nil), nil
}

func start(cfg config, nodes []*node, own []*redis.Client) *Locker {
	l := &Locker{
		panel: panel{
			nodes: nodes, quorum: majority(len(nodes)), clock: clock.Now, today: time.Now,
			pulse: remote.NewPulse(clock.Now, cfg.nodeTimeout), drift: cfg.drift, guard: newGuard(&cfg, len(nodes), clock.Now()),
			observer: &observer{trace: cfg.trace, log: cfg.logger},
		},
		cfg: cfg, own: own, held: make(map[*Lock]struct{}), quiet: make(chan struct{}),
	}
	l.renewals = renewals{clock: l.clock, pacer: newPacer()}
	l.life, l.end = context.WithCancel(context.Background())
	l.lines = lines{locker: l, channel: newToken("redlock"), memory: cfg.backoffMax, byKey: make(map[string]*line)}
	for i, n := range nodes {
		missed := func() { l.lines.wakeAll(i) }
		n.guard, n.observer, n.index, n.left = l.guard, l.observer, i, missed
		n.attach(l.pulse)
		l.listeners = append(l.listeners, &listener{
			node: n, channel: l.lines.channel, wake: l.lines.wake, missed: missed,
			ctx: remote.Subscribing(l.life),
		})
		l.workers.Go(n.Run)
	}
	return l
}

// spawn starts a goroutine for Close to wait for; false once closed.
func (l *Locker) spawn(f func() error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.workers.Go(f)
	}
	return !l.closed
}

// Close ends the Locker. Attempts under way and waiting callers get ErrClosed at once. Every held
// lock ends as lost (its Err finds ErrLost and ErrClosed), and its key lives out its ttl: release
// locks first if their keys should become free immediately. Releases still owed to nodes that answer
// are sent. Close waits for all that, at most four node timeouts. It does not wait longer for a
// function of Trace, so it may be called from one; what that function interrupts ends after it.
//
// An error names the nodes whose clients, given to New, had not come back by then. Further calls
// do nothing.
func (l *Locker) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	held := l.held
	l.held = nil
	if l.attempts == 0 {
		close(l.quiet)
	}
	l.mu.Unlock()

	l.end()
	for k := range held {
		k.mu.Lock()
		k.finish(fmt.Errorf("redlock: %s: %w: %w", quoted(k.Keys()), ErrLost, ErrClosed))
		k.mu.Unlock()
	}
	l.awaitAttempts(l.cfg.nodeTimeout)
	for _, n := range l.nodes {
		n.Stop()
	}
	exited, stuck := l.awaitWorkers(3 * l.cfg.nodeTimeout)
	var errs []error
	for _, c := range l.own {
		errs = append(errs, c.Close())
	}
	if len(stuck) > 0 {
		errs = append(errs, fmt.Errorf("redlock: close: no answer yet to a command sent to %s", strings.Join(stuck, ", ")))
	}
	if exited {
		errs = append(errs, l.workers.Wait())
	}
	return errors.Join(errs...)
}

// awaitAttempts waits until the attempts under way have given up, so that their undos are queued. One
// of them may be in a function of Trace, and that function in Close.
func (l *Locker) awaitAttempts(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	closedIn(ctx, l.quiet)
}

// awaitWorkers reports whether all workers and listeners have exited in time, and names the nodes where
// one of them is still in a call of the client.
func (l *Locker) awaitWorkers(limit time.Duration) (exited bool, stuck []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	exited = true
	for i, n := range l.nodes {
		works, listens := !closedIn(ctx, n.Exited()), !closedIn(ctx, l.listeners[i].running())
		exited = exited && !works && !listens
		if listens || works && n.InClient() {
			stuck = append(stuck, n.name)
		}
	}
	return exited, stuck
}

// closedIn waits for c to be closed, not longer than ctx lasts.
func closedIn(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TryAcquire makes one attempt to lock key for ttl and returns its handle, held, or an
// error at once: it waits for the votes of a quorum, no longer than the node timeout or
// ttl/4, with WithFencing in rare cases twice that, or until ctx ends. While nodes are being met for
// the first time it also waits for them: six node timeouts, and half of ttl, at most. Time for which
// this process was stopped or starved does not count. What a failed attempt left on the nodes is
// deleted in the background.
//
// ttl is the life of the key on the nodes, in whole milliseconds, rounded down, from 10 ms to
// 366 days; the holder's validity is ttl − elapsed − drift. The lock is not re-entrant: a
// second acquire of a held key is refused, whoever asks.
//
// Errors: ErrHeld or ErrNoQuorum, both ErrNotAcquired, with the nodes' answers in a
// *QuorumError; ctx's error beside them where it ended the call; ErrClosed. An argument out of
// range is named, and nothing is sent. Keys that end in ":redlock-fence" or ":redlock-waiters" are out of
// range: redlock keeps such names for what stands beside a lock.
func (l *Locker) TryAcquire(ctx context.Context, key string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	return l.TryAcquireAll(ctx, []string{key}, ttl, opts...)
}

// TryAcquireAll is TryAcquire for several keys as one lock: on each node all of them are taken or none,
// and they are renewed, fenced, lost and released together. A key that is empty or given twice, no keys at all and
// more than 1,000, of 1 MiB each or 8 MiB together, are refused by name. The keys of a lock must share a slot on servers in cluster mode.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	q, err := l.newRequest(keys, ttl, opts)
	if err != nil {
		return nil, err
	}
	if q.waitSet {
		return nil, errors.New("redlock: Wait: TryAcquire does not wait; use Acquire")
	}
	k, failure := l.attempt(ctx, q, nil, way{gate: noGate})
	if failure != nil {
		return nil, failure
	}
	return k, nil
}

// Do acquires key as Acquire does, runs fn with a context that ends with the lock, renews in
// the background while fn runs, and releases. fn should stop when its context ends: the lock
// may then be someone else's.
//
// It returns what Acquire returns if that fails, without running fn. Otherwise fn's error
// comes first, joined with that of Release: ErrLost if the lock was lost while fn ran, even
// where fn returned nil. fn may release the lock itself. A panic in fn goes on after the
// release.
func (l *Locker) Do(ctx context.Context, key string, ttl time.Duration, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) (err error) {
	k, err := l.Acquire(ctx, key, ttl, append([]AcquireOption{AutoRenew()}, opts...)...)
	if err != nil {
		return err
	}
	defer func() {
		if released := k.Release(ctx); released != nil && !errors.Is(released, ErrReleased) {
			err = errors.Join(err, released)
		}
	}()
	inner, cancel := k.Context(ctx)
	defer cancel()
	return fn(inner, k)
}

func (l *Locker) nodeTimeout(ttl time.Duration) time.Duration {
	return nodeTimeoutFor(l.cfg.nodeTimeout, ttl)
}

func (l *Locker) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.attempts++
	}
	return !l.closed
}

// leave ends what enter began.
func (l *Locker) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts--
	if l.closed && l.attempts == 0 {
		close(l.quiet)
	}
}

// remember keeps a held lock for Close to end; false once closed.
func (l *Locker) remember(k *Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.held[k] = struct{}{}
	}
	return !l.closed
}

func (l *Locker) forget(k *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, k)
}
