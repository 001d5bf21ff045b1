package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	portTries = 20    // ports tried for one server
	firstPort = 16384 // below every platform's ports for outgoing connections:
	lastPort  = 32767 // see freePort
)

var errStopped = errors.New("it was stopped for good")

// Server is one redis-server process with an address of its own, which stays the same over Kill and
// Restart. It is safe for concurrent use: one operation at a time, in the order they come. Every
// operation's error names it and the server.
type Server struct {
	binary string
	args   []string
	addr   string
	dir    string
	clock  *clock // nil where it keeps the machine's time

	ops     sync.Mutex // held for the whole of an operation; guards stopped
	stopped bool

	process atomic.Pointer[process] // replaced by Restart, nil while none runs
	history history
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr }

// URL returns the redis:// URL.
func (s *Server) URL() string { return "redis://" + s.addr }

// String names the server and tells what was done to it and when, with the errors that this met.
func (s *Server) String() string {
	return fmt.Sprintf("server %s: %s", s.addr, &s.history)
}

// PID returns the process id, or 0 while no process runs.
func (s *Server) PID() int {
	if p := s.process.Load(); p != nil && p.running() {
		return p.pid
	}
	return 0
}

// Pause stops the process in its tracks (SIGSTOP): the kernel goes on accepting connections and taking
// in commands, nothing answers until Resume. It fails where CanPause is false.
func (s *Server) Pause() error {
	return s.order("pause", toSuspend)
}

// Resume lets a paused process go on (SIGCONT); what has been sent to it meanwhile is carried out then.
func (s *Server) Resume() error {
	return s.order("resume", toResume)
}

// CanPause reports whether servers can be paused: not on Windows, but for those of a keeper, see Keep.
func CanPause() bool { return canSuspend || os.Getenv(keeperAddress) != "" }

func (s *Server) order(verb string, o order) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	p := s.process.Load()
	if p == nil || !p.running() {
		return s.done(verb, errors.New("it does not run"))
	}
	return s.done(verb, p.control(o))
}

// Kill ends the process at once, paused or not, and waits for its end; keys that it does not keep on
// disk are lost. Killing a server that does not run does nothing.
func (s *Server) Kill() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	return s.done("kill", s.kill())
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

// Stop ends the process, paused or not, and removes its directory. A second call does nothing.
func (s *Server) Stop() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return nil
	}
	if err := s.kill(); err != nil {
		return s.done("stop", err)
	}
	s.stopped = true
	err := os.RemoveAll(s.dir)
	if s.clock != nil {
		err = errors.Join(err, s.clock.close())
	}
	return s.done("stop", err)
}

// done notes an operation and names it in its error.
func (s *Server) done(operation string, err error) error {
	if err == nil {
		s.history.note(operation)
		return nil
	}
	s.history.note(fmt.Sprintf("%s: %v", operation, err))
	return fmt.Errorf("redistest: %s %s: %w", operation, s.addr, err)
}

// startServer starts a server on a port of its own choice, and on another one if that was taken before
// the server got to it.
func startServer(binary string, skewable bool, args []string) (*Server, error) {
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
		if skewable {
			server.clock, err = newClock()
		}
		if err == nil {
			err = server.start()
		}
		err = server.done("start", err)
		if err == nil {
			return server, nil
		}
		err = errors.Join(err, server.Stop())
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
	arguments := []string{
		"--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning",
	}
	var environment []string
	if s.clock != nil {
		arguments = append(arguments, s.clock.args()...)
		environment = s.clock.environment()
	}
	p, err := s.launch(append(arguments, s.args...), environment)
	if err != nil {
		return err
	}
	err = awaitReady(p, s.addr)
	if err == nil && s.clock != nil {
		err = s.clock.readBy(p.pid)
	}
	if err != nil {
		return errors.Join(err, p.kill())
	}
	s.process.Store(p)
	return nil
}

func (s *Server) launch(args, environment []string) (*process, error) {
	if keeper := os.Getenv(keeperAddress); keeper != "" {
		return startKept(keeper, args)
	}
	return startProcess(s.binary, args, environment)
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
