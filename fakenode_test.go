package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// fakeNode is a miniredis behind in-memory connections whose two directions can be delayed
// or held up. Under synctest its keys expire, and its delays pass, in virtual time.
type fakeNode struct {
	t    testing.TB
	addr string

	mu      sync.Mutex
	server  *miniredis.Miniredis
	up      link // towards the node
	down    link // towards the client
	refuses error
	seen    []string // commands executed, as "SET key token …"
	veto    func(command string) string
	dials   int
	starts  int
	conns   []net.Conn
	runID   string    // told by INFO server, new after each start; "" makes INFO unknown
	started time.Time // told as uptime

	carriers sync.WaitGroup
}

// link is one direction of all connections to a node.
type link struct {
	delay time.Duration
	each  time.Duration // that a byte takes: on the way to the node it bounds what this one can serve
	gate  chan struct{} // closed when the link may carry; nil: it may
}

func newFakeNode(t testing.TB, i int) *fakeNode {
	f := &fakeNode{t: t, addr: fmt.Sprintf("10.0.0.%d:6379", i+1)}
	// A unique delay for each link: what wakes at the same virtual instant runs in any order.
	f.up.delay = time.Duration(100_000+i*1_009) * time.Nanosecond
	f.down.delay = time.Duration(100_000+i*2_003) * time.Nanosecond
	f.start()
	f.started = f.started.Add(-30 * 24 * time.Hour) // long before any test's ttl
	return f
}

func (f *fakeNode) start() {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	conn, err := m.Dial() // makes the server
	require.NoError(f.t, err)
	_ = conn.Close()
	m.Server().SetPreHook(f.hook)
	f.mu.Lock()
	f.server = m
	f.starts++
	f.runID = fmt.Sprintf("%s-run-%d", f.addr, f.starts)
	f.started = time.Now()
	f.mu.Unlock()
}

func (f *fakeNode) hook(c *server.Peer, cmd string, args ...string) bool {
	command := strings.Join(append([]string{strings.ToUpper(cmd)}, args...), " ")
	f.mu.Lock()
	f.seen = append(f.seen, command)
	veto, runID, uptime := f.veto, f.runID, time.Since(f.started)
	f.mu.Unlock()
	if strings.EqualFold(command, "INFO server") && runID != "" {
		c.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\n", runID, int(uptime.Seconds())))
		return true
	}
	if veto != nil {
		if reply := veto(command); reply != "" {
			c.WriteError(reply)
			return true
		}
	}
	return false
}

// hang holds up both directions: what was sent arrives when the node resumes, even from
// connections that were closed meanwhile, as it does from the buffers of a stopped process.
func (f *fakeNode) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up.gate == nil {
		f.up.gate = make(chan struct{})
	}
	if f.down.gate == nil {
		f.down.gate = make(chan struct{})
	}
}

func (f *fakeNode) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range []*link{&f.up, &f.down} {
		if l.gate != nil {
			close(l.gate)
			l.gate = nil
		}
	}
}

// mute lets requests through and holds up the replies.
func (f *fakeNode) mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down.gate = make(chan struct{})
}

// slow sets the time that each direction takes.
func (f *fakeNode) slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up.delay, f.down.delay = d/2+f.up.delay%100_000, d/2+f.down.delay%100_000
}

// crash ends the node: connections break, new ones are refused, the data is gone.
func (f *fakeNode) crash() {
	f.mu.Lock()
	m, conns := f.server, f.conns
	f.conns = nil
	f.refuses = errors.New("connection refused")
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	m.Close()
}

// cut breaks all connections; new ones are accepted.
func (f *fakeNode) cut() {
	f.mu.Lock()
	conns := f.conns
	f.conns = nil
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// unreachable cuts the node off, with its data, or lets it be reached again.
func (f *fakeNode) unreachable(yes bool) {
	f.mu.Lock()
	f.refuses = nil
	if yes {
		f.refuses = errors.New("no route to host")
	}
	f.mu.Unlock()
	f.cut()
}

// flushScripts empties the script cache, as SCRIPT FLUSH or a restart does.
func (f *fakeNode) flushScripts() {
	f.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "10.9.9.9:1", Dialer: f.dial})
	defer c.Close()
	require.NoError(f.t, c.ScriptFlush(context.Background()).Err())
}

// restart brings a crashed node back, empty.
func (f *fakeNode) restart() {
	f.start()
	f.mu.Lock()
	f.refuses = nil
	f.mu.Unlock()
}

func (f *fakeNode) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	f.dials++
	m, refuses := f.server, f.refuses
	f.mu.Unlock()
	if refuses != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: refuses}
	}
	client, near := net.Pipe()
	far, err := m.Dial() // without the lock: the server calls hook with its own held
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, near, far)
	f.carriers.Go(func() { f.carry(&f.up, near, far) })
	f.carriers.Go(func() { f.carry(&f.down, far, near) })
	return client, nil
}

// carry forwards what arrives from one end to the other, each piece the link's delay after it
// arrived and when its gate is open.
func (f *fakeNode) carry(l *link, from, to net.Conn) {
	type piece struct {
		data []byte
		due  time.Time
		gate chan struct{}
	}
	pieces := make(chan piece, 1<<12)
	f.carriers.Go(func() {
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if p.gate != nil {
				<-p.gate
			}
			_, _ = to.Write(p.data) // a closed end swallows the rest
		}
	})
	defer close(pieces)
	buf := make([]byte, 1<<16)
	var free time.Time // when all that came before has been carried
	for {
		n, err := from.Read(buf)
		if n > 0 {
			f.mu.Lock()
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(time.Duration(n) * l.each)
			pieces <- piece{append([]byte(nil), buf[:n]...), free.Add(l.delay), l.gate}
			f.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// startedAgo makes the node tell that it was started so long ago.
func (f *fakeNode) startedAgo(age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = time.Now().Add(-age)
}

// value returns what the node stores under key, "" for nothing.
func (f *fakeNode) value(key string) string {
	v, err := f.miniredis().Get(key)
	if err != nil {
		return ""
	}
	return v
}

func (f *fakeNode) ttl(key string) time.Duration { return f.miniredis().TTL(key) }

func (f *fakeNode) miniredis() *miniredis.Miniredis {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server
}

// commands returns the executed commands that contain part.
func (f *fakeNode) commands(part string) (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if strings.Contains(s, part) {
			found = append(found, s)
		}
	}
	return found
}

func (f *fakeNode) vetoing(veto func(command string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.veto = veto
}

// limit lets the node take so many bytes of requests a second.
func (f *fakeNode) limit(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up.each = time.Second / time.Duration(bytes)
}

func (f *fakeNode) dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

// world is a set of fake nodes in one bubble of virtual time.
type world struct {
	t     *testing.T
	nodes []*fakeNode
}

// inWorld runs test in virtual time with n nodes, and closes what it opened.
func inWorld(t *testing.T, n int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		for i := range n {
			w.nodes = append(w.nodes, newFakeNode(t, i))
		}
		t.Cleanup(func() {
			for _, f := range w.nodes {
				f.resume()
				f.crash()
				f.carriers.Wait()
			}
		})
		test(t, w)
	})
}

// open makes a locker and lets it meet its nodes.
func (w *world) open(opts ...Option) *Locker {
	w.t.Helper()
	l := w.openNow(opts...)
	synctest.Wait()
	time.Sleep(3 * time.Millisecond)
	return l
}

// openNow makes a locker as Open does, over in-memory connections.
func (w *world) openNow(opts ...Option) *Locker {
	w.t.Helper()
	cfg, err := newConfig(opts)
	require.NoError(w.t, err)
	nodes, clients := w.makeNodes(cfg)
	l := start(cfg, nodes, clients)
	w.closeAtEnd(l)
	return l
}

func (w *world) makeNodes(cfg config) ([]*node, []*redis.Client) {
	nodes := make([]*node, len(w.nodes))
	clients := make([]*redis.Client, len(w.nodes))
	for i, f := range w.nodes {
		o := tuned(&redis.Options{Addr: f.addr, Dialer: f.dial}, cfg.nodeTimeout)
		nodes[i], clients[i] = openNode(o, cfg.nodeTimeout)
	}
	return nodes, clients
}

func (w *world) closeAtEnd(l *Locker) {
	w.t.Cleanup(func() {
		for _, f := range w.nodes {
			f.resume()
		}
		_ = l.Close()
	})
}

// keyless asserts that no node has the key.
func (w *world) keyless(key string) {
	w.t.Helper()
	for _, f := range w.nodes {
		require.Empty(w.t, f.value(key), "%s still has %q", f.addr, key)
	}
}

func (w *world) count(key, token string) (n int) {
	for _, f := range w.nodes {
		if f.value(key) == token {
			n++
		}
	}
	return n
}

func (w *world) hold(l *Locker, key string, ttl time.Duration, opts ...AcquireOption) *Lock {
	w.t.Helper()
	k, err := l.TryAcquire(w.t.Context(), key, ttl, opts...)
	require.NoError(w.t, err)
	return k
}
