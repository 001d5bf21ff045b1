package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	readyLimit  = 10 * time.Second     // for a server to answer after its start
	pollEvery   = 5 * time.Millisecond // between two looks at a starting server
	answerLimit = 1 * time.Second      // for one answer to one look
)

func awaitReady(p *process, addr string) error {
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		last := probe(addr, p.pid)
		if last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.failure()
		case <-limit.C:
			return fmt.Errorf("no answer within %v: %w%s", readyLimit, last, p.output.quoted())
		case <-poll.C:
		}
	}
}

// probe asks who listens at addr. A bare PING is not enough: had another server taken the port first, it
// would answer while ours is still on its way to fail.
func probe(addr string, pid int) error {
	answer, err := ask(addr, "PING", "INFO server")
	if verdict := judge(answer, pid); verdict != nil {
		return errors.Join(verdict, err)
	}
	return nil
}

func judge(answer string, pid int) error {
	switch {
	case strings.HasPrefix(answer, "-NOAUTH"):
		return nil // started with a password by the caller's args: it is up, and says no more than that
	case !strings.HasPrefix(answer, "+PONG"):
		return fmt.Errorf("answered PING with %.100q", answer)
	case !strings.Contains(answer, "process_id:"+strconv.Itoa(pid)+"\r\n"):
		return fmt.Errorf("another server answers there")
	}
	return nil
}

// FlushScripts makes the server forget its cached scripts, as a restart or an operator's hand does: the next
// EVALSHA finds NOSCRIPT. It waits a second at most for the answer; a paused server flushes when it goes on.
func (s *Server) FlushScripts() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	answer, err := ask(s.addr, "SCRIPT FLUSH")
	if err == nil && !strings.HasPrefix(answer, "+OK") {
		err = fmt.Errorf("answered %.100q", answer)
	}
	return s.done("flush scripts", err)
}

// ask sends commands over a connection of its own and returns all that is answered, the part that came
// before an error included.
func ask(addr string, commands ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, answerLimit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return "", err
	}
	// QUIT ends the connection: the end of the stream is the end of the answer, however long that is.
	if _, err := io.WriteString(conn, strings.Join(commands, "\r\n")+"\r\nQUIT\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
