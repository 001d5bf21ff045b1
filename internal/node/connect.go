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

// Dialer makes the connections of a node's own client, whose options it must be given to (Dial). The node dials by
// itself, and then has the client greet on the connection: the client's pool would dial on when nobody waits any
// more, and print every failed dial to the process's standard error.
type Dialer struct {
	dial          DialFunc
	network, addr string

	mu   sync.Mutex
	next net.Conn // for the client's next connection
}

// NewDialer returns a Dialer to an address.
func NewDialer(dial DialFunc, network, addr string) *Dialer {
	return &Dialer{dial: dial, network: network, addr: addr}
}

// Dial is the Dialer of the client's options. It dials for subscriptions alone.
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Value(subscribing{}) != nil {
		conn, err := d.dial(ctx, network, addr)
		if err != nil {
			return failedConn{err: err}, nil
		}
		return tied(ctx, conn), nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	conn := d.next
	d.next = nil
	if conn == nil {
		return failedConn{err: errors.New("no connection was made for it")}, nil
	}
	return conn, nil
}

func (d *Dialer) offer(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = conn
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

// maxWords is how much is kept of what a server says first.
const maxWords = 256

// greeting is a connection during the greeting, which is overheard.
type greeting struct {
	net.Conn
	mu    sync.Mutex
	words []byte // the first that the server said
}

func (g *greeting) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	if room := maxWords - len(g.words); n > 0 && room > 0 {
		g.words = append(g.words, p[:min(n, room)]...)
	}
	g.mu.Unlock()
	return n, err
}

// Write reads what the server has said when it does not take any more: it may have said why.
func (g *greeting) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	if err != nil {
		_ = g.Conn.SetReadDeadline(time.Now().Add(beatPeriod))
		var words [maxWords]byte
		_, _ = g.Read(words[:])
	}
	return n, err
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

// link is a connection that has been greeted.
type link struct {
	net.Conn
	end func() // closes it and gives it back to the client
}

// greet makes a connection and has the client greet and authenticate as its options say. It takes no longer than limit, or
// until ctx ends.
func greet(ctx context.Context, client *redis.Client, dialer *Dialer, limit time.Duration) (link, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := dialer.dial(ctx, dialer.network, dialer.addr)
	if err != nil {
		return link{}, err
	}
	g := &greeting{Conn: conn}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	dialer.offer(g)
	held := client.EphemeralConn()
	ping := redis.NewCmd(ctx, "ping")
	pipe := held.Pipeline()
	_ = pipe.Process(ctx, ping)
	_, execErr := pipe.Exec(ctx)
	_, err = replyOf(ping, execErr)
	if !stop() && (err == nil || wire.IsReply(err)) {
		err = context.DeadlineExceeded
	}
	if err != nil && !wire.IsReply(err) {
		words := g.lastWords()
		_ = conn.Close()
		_ = held.Close()
		if words != "" && !strings.Contains(err.Error(), words) {
			err = fmt.Errorf("not connected: %w", wire.Error(words))
		}
		return link{}, err
	}
	_ = conn.SetDeadline(time.Time{})
	return link{conn, func() {
		_ = conn.Close()
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
