package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// errPortTaken marks a server that ended because something else listens on its port.
var errPortTaken = errors.New("the port is taken")

// process is one run of the server's program.
type process struct {
	pid     int
	output  *tail
	exited  chan struct{}     // closed when the process has ended and been waited for
	err     error             // how it ended; to be read after exited
	control func(order) error // of one that has ended: may fail
}

// order is what can be done to a process that runs.
type order string

const (
	toEnd     order = "kill" // need not have ended when control returns
	toSuspend order = "suspend"
	toResume  order = "resume"
)

// startProcess starts the program, with the environment added to our own. One goroutine starts it, waits for it and keeps its thread all that
// time: on Linux the child's death signal hangs on the thread that started it, and Go ends threads as it likes.
func startProcess(binary string, args, environment []string) (*process, error) {
	p := &process{output: new(tail), exited: make(chan struct{})}
	cmd := exec.Command(binary, args...)
	cmd.Stdout = p.output
	cmd.Stderr = p.output
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = processAttributes()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.exited
		return nil, err
	}
	p.pid = cmd.Process.Pid
	p.control = func(o order) error {
		switch o {
		case toSuspend:
			return suspend(cmd.Process)
		case toResume:
			return resume(cmd.Process)
		default:
			return cmd.Process.Kill()
		}
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) kill() error {
	if err := p.control(toEnd); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// failure says how the process ended and what it printed before.
func (p *process) failure() error {
	cause := errors.New("it ended by itself")
	if p.err != nil {
		cause = fmt.Errorf("it ended by itself: %w", p.err)
	}
	if p.output.mentions("address already in use") {
		cause = fmt.Errorf("%w: %w", errPortTaken, cause)
	}
	return fmt.Errorf("%w%s", cause, p.output.quoted())
}

// tail keeps the last part of what a process prints. Safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

func (t *tail) mentions(phrase string) bool {
	return strings.Contains(strings.ToLower(t.String()), phrase)
}

func (t *tail) quoted() string {
	text := t.String()
	if text == "" {
		return ""
	}
	return "; it printed:\n" + text
}
