package redistest

import (
	"encoding/json"
	"net"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// report is what a keeper tells: first of the start, then of each order, at last of the end.
type report struct {
	PID    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Ended  bool   `json:"ended,omitempty"` // Error says how, Output what was printed last
	Output string `json:"output,omitempty"`
}

// Keep starts redis-servers for programs that cannot: those for Windows, under wine, cannot start or signal a process
// of the system below. Such a program has the listener's address in REDLOCK_KEEPER. Each server has
// a connection of its own and ends with it. Paths of wine are looked up in drives, a directory such as
// dosdevices in wine's own. Keep serves until the listener is closed; then it returns that error.
func Keep(listener net.Listener, drives string) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			keep(conn, drives)
		}()
	}
}

func keep(conn net.Conn, drives string) {
	from, to := json.NewDecoder(conn), json.NewEncoder(conn)
	var args []string
	if from.Decode(&args) != nil {
		return
	}
	p, err := startHere(args, drives)
	if err != nil {
		_ = to.Encode(report{Error: err.Error()})
		return
	}
	defer p.kill()
	orders, done := make(chan order), make(chan struct{})
	defer close(done)
	go func() {
		defer close(orders)
		for o := order(""); from.Decode(&o) == nil; {
			select {
			case orders <- o:
			case <-done:
			}
		}
	}()
	for answer := (report{PID: p.pid}); to.Encode(answer) == nil && !answer.Ended; {
		select {
		case o, connected := <-orders:
			if !connected {
				return
			}
			answer = report{Error: text(p.control(o))}
		case <-p.exited:
			answer = report{Ended: true, Error: text(p.err), Output: p.output.String()}
		}
	}
}

func startHere(args []string, drives string) (*process, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		args[i] = below(arg, drives)
	}
	return startProcess(binary, args, nil)
}

var onDrive = regexp.MustCompile(`^[A-Za-z]:\\`)

// below returns the path that the system below wine has for one of wine's, and any other text as it is.
func below(arg, drives string) string {
	if !onDrive.MatchString(arg) {
		return arg
	}
	return path.Join(drives, strings.ToLower(arg[:2]), strings.ReplaceAll(arg[3:], `\`, "/"))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
