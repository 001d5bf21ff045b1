package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	readyLimit = 10 * time.Second     // for a server to answer after its start
	pollEvery  = 5 * time.Millisecond // between two looks at a starting server
	pingLimit  = 1 * time.Second      // for one answer to one look
	portTries  = 20                   // ports tried for one server
	firstPort  = 16384                // below every platform's ports for outgoing connections:
	lastPort   = 32767                // see freePort
)

// Server is one redis-server process with an address of its own, which stays the same over Kill and
// Restart. It is safe for concurrent use: one operation at a time, in the order they come.
type Server struct {
	binary string
	args   []string
	addr   string
	dir    string

	ops     sync.Mutex // held for the whole of an operation; guards stopped
	stopped bool

	process atomic.Pointer[process] // replaced by Restart, nil while none runs
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr }

// URL returns the redis:// URL.
func (s *Server) URL() string { return "redis://" + s.addr }

// PID returns the process id, or 0 while no process runs.
func (s *Server) PID() int {
	if p := s.process.Load(); p != nil && p.running() {
		return p.pid()
	}
	return 0
}

// Pause stops the process in its tracks (SIGSTOP): the kernel goes on accepting connections and taking
// in commands, nothing answers until Resume. Not supported on Windows.
func (s *Server) Pause() error {
	return s.signal("pause", suspend)
}

// Resume lets a paused process go on (SIGCONT); what has been sent to it meanwhile is carried out then.
// Not supported on Windows.
func (s *Server) Resume() error {
	return s.signal("resume", resume)
}

func (s *Server) signal(verb string, send func(*os.Process) error) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	p := s.process.Load()
	if p == nil || !p.running() {
		return s.wrap(verb, errors.New("it does not run"))
	}
	return s.wrap(verb, send(p.cmd.Process))
}

// Kill ends the process at once, paused or not, and waits for its end; all its keys are lost. Killing a
// server that does not run does nothing.
func (s *Server) Kill() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	return s.wrap("kill", s.kill())
}

func (s *Server) kill() error {
	p := s.process.Load()
	if p == nil {
		return nil
	}
	if err := p.kill(); err != nil {
		return err
	}
	s.process.Store(nil)
	return nil
}

// Restart starts a killed server again on the same port, without any keys, and waits until it answers.
func (s *Server) Restart() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return s.wrap("restart", errors.New("it was stopped for good"))
	}
	if p := s.process.Load(); p != nil && p.running() {
		return s.wrap("restart", errors.New("it still runs, kill it first"))
	}
	return s.wrap("restart", s.start())
}

// Stop ends the process, paused or not, and removes its directory. A second call does nothing.
func (s *Server) Stop() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return nil
	}
	if err := s.kill(); err != nil {
		return s.wrap("stop", err)
	}
	s.stopped = true
	return s.wrap("stop", os.RemoveAll(s.dir))
}

func (s *Server) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redistest: %s %s: %w", verb, s.addr, err)
}

// startServer starts a server on a port of its own choice, and on another one if that was taken before
// the server got to it.
func startServer(binary string, args []string) (*Server, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "redistest-")
		if err != nil {
			return nil, fmt.Errorf("redistest: a directory for the server: %w", err)
		}
		server := &Server{binary: binary, args: args, addr: address(port), dir: dir}
		err = server.start()
		if err == nil {
			return server, nil
		}
		err = errors.Join(server.wrap("start", err), server.Stop())
		if try == portTries || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
}

// start runs the process and waits until it answers; after an error nothing runs.
func (s *Server) start() error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	arguments := append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning",
	}, s.args...)
	p, err := startProcess(s.binary, arguments)
	if err != nil {
		return err
	}
	if err := awaitReady(p, s.addr); err != nil {
		return errors.Join(err, p.kill())
	}
	s.process.Store(p)
	return nil
}

func awaitReady(p *process, addr string) error {
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		last := probe(addr, p.pid())
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
	conn, err := net.DialTimeout("tcp", addr, pingLimit)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(pingLimit)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\nQUIT\r\n")); err != nil {
		return err
	}
	var answer strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		answer.Write(buffer[:n])
		if err != nil {
			break // QUIT ends the connection: all there is to read has been read
		}
	}
	return judge(answer.String(), pid)
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

// freePort picks a port that nothing listens on. It stays below the range from which the system takes
// ports for outgoing connections: there, the port of a killed server could be given away before its
// restart, even to a client that is dialling that very server and then finds itself connected to itself.
func freePort() (int, error) {
	var last error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := net.Listen("tcp", address(port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("redistest: no free port in %d tries: %w", portTries, last)
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
