package node

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// fakeServer answers over in-memory connections after a delay.
type fakeServer struct {
	mu    sync.Mutex
	delay time.Duration
	deaf  net.Conn                   // this connection is read, and nothing answered on it
	reply func(args []string) []byte // nil: as usual; empty: no answer at all
	seen  []string                   // without the greeting
	conns []net.Conn
	dials int
}

func (f *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	f.mu.Lock()
	f.dials++
	f.conns = append(f.conns, far)
	f.mu.Unlock()
	go f.serve(far)
	return near, nil
}

func (f *fakeServer) serve(conn net.Conn) {
	type late struct {
		due  time.Time
		data []byte
	}
	out := make(chan late, 1<<12)
	defer close(out)
	go func() {
		for l := range out {
			time.Sleep(time.Until(l.due))
			if _, err := conn.Write(l.data); err != nil {
				continue
			}
		}
	}()
	var in []byte
	buf := make([]byte, 1<<16)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:n]...)
		for {
			args, rest, ok, _ := wire.ParseCommand(in)
			if !ok {
				break
			}
			in = rest
			if answer := f.answer(conn, args); len(answer) > 0 {
				f.mu.Lock()
				due := time.Now().Add(f.delay)
				f.mu.Unlock()
				out <- late{due, answer}
			}
		}
	}
}

func (f *fakeServer) answer(conn net.Conn, args []string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf == conn {
		return nil
	}
	command := strings.ToLower(strings.Join(args, " "))
	if args[0] != "hello" && args[0] != "ping" && args[0] != "info" && args[0] != "script" {
		f.seen = append(f.seen, command)
	}
	if f.reply != nil {
		if answer := f.reply(args); answer != nil {
			return answer
		}
	}
	switch strings.ToLower(args[0]) {
	case "hello":
		return []byte("-ERR unknown command\r\n")
	case "ping":
		return []byte("+PONG\r\n")
	case "info":
		return wire.AppendReply(nil, wire.Value{Kind: wire.Text, Text: "run_id:x\r\n"})
	}
	return []byte("+OK\r\n")
}

func (f *fakeServer) set(reply func(args []string) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reply = reply
}

// cut ends all connections.
func (f *fakeServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// told is an owner that keeps the answers.
type told struct {
	mu      sync.Mutex
	args    []any
	dead    bool
	copies  []bool // of the commands sent: which were second copies
	answers []Answer
}

func (o *told) Take(_ *Call, again bool) (wire.Command, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return wire.Command{}, false
	}
	o.copies = append(o.copies, again)
	return wire.Command{Args: o.args}, true
}

func (o *told) Keys(*Call) []any { return o.args[1:2] }

func (o *told) Answer(_ *Call, a Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers = append(o.answers, a)
}

func (o *told) all() []Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answers
}

func (o *told) sent() []bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.copies
}

// bench is a node before a fake server, in virtual time.
type bench struct {
	*fakeServer
	node     *Node
	down     []error
	met      int
	refusing []error
}

func (b *bench) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *bench) faults() (down []error)    { b.note(func() { down = b.down }); return down }
func (b *bench) refusals() (r []error)     { b.note(func() { r = b.refusing }); return r }
func (b *bench) meetings() (n int)         { b.note(func() { n = b.met }); return n }
func (b *bench) dialled() (n int)          { b.note(func() { n = b.dials }); return n }
func (b *bench) commands() (seen []string) { b.note(func() { seen = b.seen }); return seen }

const nodeTimeout = 200 * time.Millisecond

func (b *bench) submit(class Class, args ...any) *told {
	o := &told{args: args}
	if err := b.node.Submit(&Call{Owner: o, Class: class}, clock.Now()); err != nil {
		o.answers = append(o.answers, Answer{Err: err, Unsent: true})
	}
	return o
}

func inBubble(t *testing.T, pooled bool, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{fakeServer: &fakeServer{delay: time.Millisecond}}
		o := Options{
			Name: "n", Timeout: nodeTimeout, Clock: clock.Now, Pulse: NewPulse(clock.Now, nodeTimeout),
			Scripts: []wire.Script{wire.ScriptOf("release")}, Release: wire.ScriptOf("release"), Closed: net.ErrClosed,
			Hooks: Hooks{
				Met:        func(string, error, clock.Instant) bool { b.note(func() { b.met++ }); return true },
				Introduced: func() {},
				Down:       func(err error) { b.note(func() { b.down = append(b.down, err) }) },
				Up:         func(time.Duration) {},
				Refusing:   func(err error) { b.note(func() { b.refusing = append(b.refusing, err) }) },
			},
		}
		options := &redis.Options{
			Addr: "10.0.0.1:6379", Dialer: b.dial, MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true,
			ContextTimeoutEnabled: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			PipelinePoolSize: -1, PoolSize: 64,
		}
		if pooled {
			client := redis.NewClient(options)
			defer client.Close()
			b.node = Over(o, client, nil)
		} else {
			dialer := NewDialer(b.dial, "tcp", options.Addr)
			options.Dialer = dialer.Dial
			client := redis.NewClient(options)
			defer client.Close()
			b.node = Open(o, client, dialer)
		}
		go func() { _ = b.node.Run() }()
		time.Sleep(100 * time.Millisecond)
		test(t, b)
		b.node.Stop()
		<-b.node.Exited()
		b.cut()
	})
}
