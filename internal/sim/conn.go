package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
)

// conn is the client's end of a connection.
type conn struct {
	wire    *wire
	client  int
	session *session
	flow    flow // upwards

	mu       sync.Mutex
	inbox    []byte
	failure  error // after the inbox
	closed   bool
	deadline time.Time
	news     chan struct{} // 1 place
}

// dial connects a client to a node. It takes a round trip, and as long as the way is blocked
// or nobody is there to refuse.
func (w *wire) dial(ctx context.Context, n *node, client int, on lane) (net.Conn, error) {
	if err := ctx.Err(); err != nil { // as when a subscription fails because its locker is closed: by chance
		return nil, err
	}
	n.log.add(w.up.nameOf(on), "dials")
	f := w.flow(on)
	for _, l := range []*link{w.up, w.down} {
		if err := l.cross(ctx, f); err != nil {
			n.log.add(w.up.nameOf(on), "hears nothing")
			return nil, err
		}
	}
	c := &conn{wire: w, client: client, flow: f, news: make(chan struct{}, 1)}
	session, err := n.accept(c)
	switch {
	case errors.Is(err, errSilent):
		<-ctx.Done()
		return nil, ctx.Err()
	case err != nil:
		n.log.add(w.up.nameOf(on), "%v", err)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	c.session = session
	return c, nil
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, wait, err := c.take(b)
		if n > 0 || err != nil {
			c.breathe(err)
			return n, err
		}
		if wait == 0 {
			<-c.news
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.news:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// breathe makes a broken connection show a moment later, each at its own: several that
// broke while they were idle are found out by several workers at the same instant.
func (c *conn) breathe(err error) {
	if errors.Is(err, errReset) {
		time.Sleep(time.Microsecond + c.wire.down.slot + c.flow.slot)
	}
}

// take returns what has arrived, or how long to wait for it at most; 0 for ever.
func (c *conn) take(b []byte) (n int, wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, 0, net.ErrClosed
	case len(c.inbox) > 0:
		n = copy(b, c.inbox)
		c.inbox = c.inbox[n:]
		return n, 0, nil
	case c.failure != nil:
		return 0, 0, c.failure
	case c.deadline.IsZero():
		return 0, 0, nil
	}
	if wait = time.Until(c.deadline); wait <= 0 {
		return 0, 0, os.ErrDeadlineExceeded
	}
	return 0, wait, nil
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	closed, failure := c.closed, c.failure
	c.mu.Unlock()
	switch {
	case closed:
		return 0, net.ErrClosed
	case failure != nil:
		c.breathe(failure)
		return 0, failure
	}
	data := append([]byte(nil), b...)
	c.wire.up.send(&c.flow, func(late bool) { c.session.receive(data, late) }, c.cut)
	return len(b), nil
}

// arrive is called when the network hands over data, or the end of the connection.
func (c *conn) arrive(data []byte, failure error) {
	c.mu.Lock()
	c.inbox = append(c.inbox, data...)
	if c.failure == nil {
		c.failure = failure
	}
	c.mu.Unlock()
	c.rouse()
}

func (c *conn) rouse() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Close ends the connection here; what was written before still arrives.
func (c *conn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	c.rouse()
	if !closed {
		c.wire.up.finish(&c.flow, func() { c.session.receive(nil, false) })
	}
	return nil
}

// cut breaks the connection: both ends notice at once.
func (c *conn) cut() {
	c.session.kill()
	c.arrive(nil, errReset)
}

// SetReadDeadline moves the deadline forward by some ns, on each link by others: workers
// that began at one instant must not time out at one instant.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(-time.Microsecond - c.wire.up.slot - c.flow.slot)
	}
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	c.rouse()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil } // a write never blocks
func (c *conn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *conn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// failedConn is a dial that failed, hidden from the client's pool as redlock.Open does it:
// the pool would go on dialling from a goroutine of its own.
type failedConn struct {
	*conn // nil
	err   error
}

func (c failedConn) Read([]byte) (int, error)         { return 0, fmt.Errorf("not connected: %w", c.err) }
func (c failedConn) Write([]byte) (int, error)        { return 0, fmt.Errorf("not connected: %w", c.err) }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
