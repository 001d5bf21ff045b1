package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/wire"
)

// DialFunc makes a network connection, as the Dialer of the client library's options does.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Dialer is the Dialer for the client of a node that makes its own connections. It hands the connection to
// whoever asked for it by the ctx, and hides failed dials from the client's pool: the first
// command on the connection fails instead. The pool would print every failed dial to the
// process's standard error, and after a few of them go on dialling from a goroutine that
// outlives Close; the worker's probes are all the dialling there should be.
func Dialer(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err: err}, nil
		}
		if g, ok := ctx.Value(greetingKey{}).(*greeting); ok {
			return g.take(conn), nil
		}
		return tied(ctx, conn), nil
	}
}

// CountDials is the hook for a client that is given to a node: it counts the new connections.
func CountDials(dials *atomic.Uint64) redis.Hook { return dialCounter{dials} }

type dialCounter struct{ dials *atomic.Uint64 }

func (d dialCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if ctx.Value(subscribing{}) == nil { // a subscription carries no votes: the node need not say who it is
			d.dials.Add(1)
		}
		return tied(ctx, conn), nil
	}
}

func (dialCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// subscribing is the key under which the ctx of a subscription has the life of its locker.
type subscribing struct{}

// Subscribing returns a ctx for a subscription that ends with life. Its connection is closed then,
// as neither a read nor the client's greeting looks at a ctx.
func Subscribing(life context.Context) context.Context {
	return context.WithValue(life, subscribing{}, life)
}

func tied(ctx context.Context, conn net.Conn) net.Conn {
	life, ok := ctx.Value(subscribing{}).(context.Context)
	if !ok {
		return conn
	}
	return tiedConn{conn, context.AfterFunc(life, func() { _ = conn.Close() })}
}

type tiedConn struct {
	net.Conn
	closed func() bool
}

func (c tiedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// greeting is a connection that is being made: what the dialer made, and what the server said first.
type greeting struct {
	mu    sync.Mutex
	conn  net.Conn
	ended bool
	words []byte // the first that the server said
}

type greetingKey struct{}

// maxWords is how much is kept of what a server says first.
const maxWords = 256

func (g *greeting) take(conn net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn = conn
	if g.ended {
		_ = conn.Close()
	}
	return &greeted{Conn: conn, g: g}
}

// end closes the connection, now or when it is there.
func (g *greeting) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.conn != nil {
		_ = g.conn.Close()
	}
}

// lastWords returns what a server said before it closed the connection, "" for nothing.
func (g *greeting) lastWords() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	line, _, _ := strings.Cut(string(g.words), "\r\n")
	if !strings.HasPrefix(line, "-") {
		return ""
	}
	return line[1:]
}

// greeted is a connection during the greeting, which is overheard.
type greeted struct {
	net.Conn
	g *greeting
}

func (c *greeted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.mu.Lock()
	if room := maxWords - len(c.g.words); n > 0 && room > 0 {
		c.g.words = append(c.g.words, p[:min(n, room)]...)
	}
	c.g.mu.Unlock()
	return n, err
}

// Write reads what the server has said when it does not take any more: it may have said why.
func (c *greeted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		var words [maxWords]byte
		_, _ = c.Read(words[:])
	}
	return n, err
}

// link is a connection that has been greeted.
type link struct {
	net.Conn
	end func() // closes it and gives it back to the client
}

// greet makes a connection through the client, which greets and authenticates as its options say. It takes no longer than
// limit, or until ctx ends.
func greet(ctx context.Context, client *redis.Client, limit time.Duration) (link, error) {
	g := &greeting{}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, g.end)
	held := client.EphemeralConn()
	ping := redis.NewCmd(ctx, "ping")
	pipe := held.Pipeline()
	_ = pipe.Process(context.WithValue(ctx, greetingKey{}, g), ping)
	_, execErr := pipe.Exec(context.WithValue(ctx, greetingKey{}, g))
	_, err := replyOf(ping, execErr)
	if !stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil && !wire.IsReply(err) {
		_ = held.Close()
		if words := g.lastWords(); words != "" && !strings.Contains(err.Error(), words) {
			err = fmt.Errorf("not connected: %w", wire.Explain(wire.Error(words)))
		}
		return link{}, err
	}
	_ = g.conn.SetDeadline(time.Time{})
	return link{g.conn, func() {
		_ = g.conn.Close()
		_ = held.Close()
	}}, nil
}

// replyOf returns what the node answered to a command of a pipeline that ended with execErr; a null reply
// is nil without error.
func replyOf(cmd *redis.Cmd, execErr error) (any, error) {
	reply, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	case reply == nil:
		// The client leaves a pipeline's commands without reply and without error when a
		// new connection was refused by the server, for a wrong password for instance.
		if execErr == nil {
			execErr = errors.New("no reply")
		}
		return nil, &wire.Unreached{Err: execErr}
	}
	return reply, nil
}

// failedConn is a connection that never came about.
type failedConn struct {
	net.Conn // nil: nothing but the methods below is called
	err      error
}

func (c failedConn) Read([]byte) (int, error)         { return 0, fmt.Errorf("not connected: %w", c.err) }
func (c failedConn) Write([]byte) (int, error)        { return 0, fmt.Errorf("not connected: %w", c.err) }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
