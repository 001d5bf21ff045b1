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
	own       []*redis.Client    // made by Open, closed by Close
	end       context.CancelFunc // of panel.life

	mu       sync.Mutex
	closed   bool
	attempts sync.WaitGroup // under way; none is added once closed
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

// New makes a Locker over clients that stay yours: they are used with their own settings, get
// one hook that counts new connections, and are never closed. Each must lead to one independent node. No call waits for a client longer
// than the node timeout, whatever the client's timeouts and retries. A lock command is sent a second
// time only when its connection broke, and so that it counts once. New fails for options out of range, for no clients, a nil client, and where two
// clients have the same address. Close the Locker before the clients.
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
		nodes[i] = lendNode(names[i], c, cfg.nodeTimeout)
	}
	return start(cfg, nodes, nil), nil
}

func start(cfg config, nodes []*node, own []*redis.Client) *Locker {
	l := &Locker{
		panel: panel{
			nodes: nodes, quorum: majority(len(nodes)), clock: clock.Now, today: time.Now,
			pulse: remote.NewPulse(clock.Now, cfg.nodeTimeout), drift: cfg.drift, guard: newGuard(&cfg, len(nodes)),
			observer: &observer{trace: cfg.trace, log: cfg.logger},
		},
		cfg: cfg, own: own, held: make(map[*Lock]struct{}),
	}
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

// Close ends the Locker. Attempts under way and waiting callers get ErrClosed, and
// every held lock ends as lost (its Err finds ErrLost and ErrClosed) while its key lives out
// its ttl: release first what should be free at once. Releases still owed to nodes that
// answer are sent. Close waits for all that, at most four node timeouts; an error names the
// nodes whose clients, given to New, still had not come back. Further calls do nothing.
func (l *Locker) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	held := l.held
	l.held = nil
	l.mu.Unlock()

	l.end()
	for k := range held {
		k.mu.Lock()
		k.finish(fmt.Errorf("redlock: %s: %w: %w", quoted(k.Keys()), ErrLost, ErrClosed))
		k.mu.Unlock()
	}
	l.attempts.Wait() // each ends by its own timer
	for _, n := range l.nodes {
		n.Stop()
	}
	stuck := l.awaitWorkers(3 * l.cfg.nodeTimeout)
	var errs []error
	for _, c := range l.own {
		errs = append(errs, c.Close())
	}
	if len(stuck) > 0 {
		errs = append(errs, fmt.Errorf("redlock: close: no answer yet to a command sent to %s", strings.Join(stuck, ", ")))
	} else {
		errs = append(errs, l.workers.Wait())
	}
	return errors.Join(errs...)
}

// awaitWorkers returns the names of the nodes whose worker or listener has not exited in time.
func (l *Locker) awaitWorkers(limit time.Duration) (stuck []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for i, n := range l.nodes {
		if !closedIn(ctx, n.Exited()) || !closedIn(ctx, l.listeners[i].running()) {
			stuck = append(stuck, n.name)
		}
	}
	return stuck
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
// range is named, and nothing is sent.
func (l *Locker) TryAcquire(ctx context.Context, key string, ttl time.Duration, opts ...AcquireOption) (*Lock, error) {
	return l.TryAcquireAll(ctx, []string{key}, ttl, opts...)
}

// TryAcquireAll is TryAcquire for several keys as one lock: on each node all of them are taken or none,
// and they are renewed, fenced, lost and released together. A key that is empty or given twice, and
// no keys at all, are refused by name. The keys of a lock must share a slot on servers in cluster mode.
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
		l.attempts.Add(1)
	}
	return !l.closed
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
