package sim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

var errSilent = errors.New("no answer")

// node is one simulated server: miniredis for its data, its own clock, and the ways in which
// a process or a machine fails. It executes one command at a time and takes no time for it.
type node struct {
	id       int
	name     string
	log      *eventLog
	clock    nodeClock
	observer func(execution)

	mu       sync.Mutex
	data     *miniredis.Miniredis
	scripts  scripts
	inner    *server.Peer // for commands of scripts
	innerOut bytes.Buffer
	sessions []*session
	hangs    int      // so many faults keep the process from running
	crashes  int      // … and so many have ended it
	silent   bool     // crashed, and the machine too: nobody refuses a connection
	backlog  []parcel // what the sockets of a hung process keep
	restarts int
	started  time.Time // of the process, by the node's clock
	modern   bool      // it tells server_time_usec
	secrecy  secrecy

	subscribers map[string][]*session // by channel
	published   []wakeUp              // by the command that is executed
	executing   string                // the waiting list that this command enters
	told        map[string]int64      // by list: the last answer to TIME, in µs
}

type parcel struct {
	session *session
	data    []byte // nil: the client has closed the connection
	late    bool
}

func newNode(id int, log *eventLog, clock nodeClock, age time.Duration) *node {
	n := &node{
		id: id, name: fmt.Sprintf("node %d", id), log: log, clock: clock,
		data: miniredis.NewMiniRedis(), started: clock.now().Add(-age),
		subscribers: make(map[string][]*session), told: make(map[string]int64),
	}
	n.data.SetTime(clock.now())
	n.data.ClockTTL(true)
	c, err := n.data.Dial() // makes the server
	if err != nil {
		panic(err)
	}
	_ = c.Close()
	n.inner = server.NewPeer(bufio.NewWriter(&n.innerOut))
	n.forgetScripts()
	return n
}

func (n *node) forgetScripts() {
	n.scripts = scripts{loaded: make(map[string]script), call: n.direct}
}

func (n *node) accept(c *conn) (*session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.crashes > 0 && n.silent:
		return nil, errSilent
	case n.crashes > 0:
		return nil, errRefused
	}
	// Of a hung process too: its kernel accepts.
	s := &session{node: n, conn: c, flow: flow{lane: c.flow.lane, slot: c.flow.slot}}
	s.peer = server.NewPeer(bufio.NewWriter(s))
	n.sessions = append(n.sessions, s)
	return s, nil
}

// receive is called when data arrives at the node's machine.
func (s *session) receive(data []byte, late bool) {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.crashes > 0:
	case s.dead && data != nil:
		s.send(nil, errReset)
	case n.hangs > 0:
		n.backlog = append(n.backlog, parcel{s, data, late})
	default:
		n.process(parcel{s, data, late})
	}
}

// process executes what has arrived and sends the replies; n.mu is held.
func (n *node) process(p parcel) {
	s := p.session
	if s.dead {
		return
	}
	if p.data == nil {
		s.close()
		n.sessions = slices.DeleteFunc(n.sessions, func(t *session) bool { return t == s })
		return
	}
	s.hold()
	defer s.release()
	s.in = append(s.in, p.data...)
	for {
		args, rest, ok := parseCommand(s.in)
		if !ok {
			return
		}
		s.in = rest
		n.observer(n.execute(s, args, p.late))
	}
}

func (n *node) execute(s *session, args []string, late bool) execution {
	n.data.SetTime(n.clock.now())
	e := execution{node: n, client: s.conn.client, args: args, late: late, locks: n.scripts.locksOf(args)}
	e.before = n.stored(e.keys)
	n.published, n.executing = nil, e.list
	e.reply = n.run(s, args)
	e.wakes = n.published
	e.after, e.numbers = n.stored(e.keys), n.numbers(e.fences)
	return e
}

func (n *node) run(s *session, args []string) any {
	switch strings.ToUpper(args[0]) {
	case "INFO":
		return s.reply(n.info())
	case "SCRIPT":
		if strings.EqualFold(args[1], "load") {
			return s.reply(n.scripts.load(args[2]))
		}
	case "EVALSHA":
		return s.reply(n.scripts.evalsha(args[1:]))
	case "SUBSCRIBE":
		s.subscribe(args[1:])
		return nil
	case "PING":
		if len(s.channels) > 0 {
			return s.reply([]any{"pong", ""})
		}
	}
	return s.dispatch(args)
}

// direct runs one command of a script.
func (n *node) direct(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "PUBLISH":
		return n.publish(args[1], args[2])
	case "TIME": // never the same twice for a list: a random number would decide who is the first in it
		told := max(n.told[n.executing]+1, n.clock.now().UnixMicro())
		n.told[n.executing] = told
		return []any{strconv.FormatInt(told/1e6, 10), strconv.FormatInt(told%1e6, 10)}
	}
	n.innerOut.Reset()
	n.data.Server().Dispatch(n.inner, args)
	n.inner.Flush()
	reply, _ := parseReply(n.innerOut.Bytes())
	return reply
}

// value returns what the node stores under key now, "" for nothing.
func (n *node) value(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.SetTime(n.clock.now())
	v, _ := n.data.Get(key)
	return v
}

// waitingLists returns the keys under which lockers wait for locks.
func (n *node) waitingLists() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.SetTime(n.clock.now())
	return slices.DeleteFunc(n.data.Keys(), func(key string) bool { return !strings.HasSuffix(key, ":redlock-waiters") })
}

func (n *node) close() {
	n.crash(true)
	n.data.Close()
}
