package sim

import (
	"slices"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// session is the node's end of a connection.
type session struct {
	node *node
	conn *conn
	flow flow // downwards
	peer *server.Peer

	// Guarded by node.mu.
	in       []byte
	dead     bool
	channels []string // that it has subscribed to

	mu        sync.Mutex
	out       []byte
	executing bool // replies are sent together when the node is done with what has arrived
}

// dispatch runs a command that miniredis knows, and returns its reply.
func (s *session) dispatch(args []string) any {
	s.mu.Lock()
	before := len(s.out)
	s.mu.Unlock()
	s.node.data.Server().Dispatch(s.peer, args)
	s.peer.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) == before {
		return nil
	}
	reply, _ := parseReply(s.out[before:])
	return reply
}

// reply sends a reply that did not come from miniredis.
func (s *session) reply(reply any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = appendReply(s.out, reply)
	return reply
}

// Write takes the replies that miniredis has for the client.
func (s *session) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, b...)
	s.flush()
	return len(b), nil
}

func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executing = true
}

func (s *session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executing = false
	s.flush()
}

// flush sends the replies of a pipeline in one piece; s.mu is held.
func (s *session) flush() {
	if s.executing || len(s.out) == 0 {
		return
	}
	data := s.out
	s.out = nil
	s.send(data, nil)
}

// send brings data, or the end of the connection, to the client.
func (s *session) send(data []byte, failure error) {
	s.conn.wire.down.send(&s.flow, func(bool) { s.conn.arrive(data, failure) }, s.conn.cut)
}

// kill is called when the connection was cut: what it still holds is gone with it.
func (s *session) kill() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.close()
	s.node.sessions = slices.DeleteFunc(s.node.sessions, func(t *session) bool { return t == s })
}

// close ends the session on the node; node.mu is held. What it subscribed to ends with it.
func (s *session) close() {
	if s.dead {
		return
	}
	s.dead = true
	s.unsubscribe()
}
