//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a command that runs in a process group of its own, together with what it starts, so that all of it
// can be signalled. (What leaves the group, as daemons do, is out of reach.) Safe for concurrent use.
type child struct {
	pgid     int // of the group, and the command's process id
	mayGoOn  func() bool
	terminal *terminal
	changes  chan os.Signal // SIGCHLD: the command has ended or was stopped
	stops    chan os.Signal // SIGTSTP, sent to us
	over     chan struct{}

	mu         sync.Mutex // held to send a signal, and to wait for the command: in between the group may become another one's
	gone       bool       // pgid is nobody's, or no longer ours
	suspended  bool       // whether the command goes on is decided when we do
	terminated bool
	killed     bool
	exit       int
}

// startChild starts a command. Where we are in the foreground of a terminal, the command is instead of us until it
// has ended. notStartedStatus tells what an error means; nothing is left running then. From the first call on,
// this process ignores SIGTTIN and SIGTTOU, so it is meant for one call.
func startChild(config childConfig) (*child, error) {
	c := &child{
		mayGoOn: config.mayGoOn,
		changes: make(chan os.Signal, 1),
		stops:   make(chan os.Signal, 1),
		over:    make(chan struct{}),
	}
	started := make(chan error)
	go c.run(config.command(), started)
	if err := <-started; err != nil {
		<-c.over
		return nil, err
	}
	return c, nil
}

// run starts the command and sees it through. It keeps its thread all that time: where a death signal
// exists it hangs on the thread that started the child, and Go ends threads as it likes.
func (c *child) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.over)
	c.terminal = openTerminal()
	defer c.terminal.close()
	signal.Notify(c.changes, syscall.SIGCHLD)
	defer signal.Stop(c.changes)

	err := c.start(cmd)

	// Only now, since a child inherits what is ignored, and Go does not undo it for these. From here on neither touching the
	// terminal nor a neighbour in our process group that reads from it may stop us: nobody would renew.
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	defer c.terminal.takeBack(c.pgid)
	if started <- err; err != nil {
		return
	}
	signal.Notify(c.stops, syscall.SIGTSTP)
	defer signal.Stop(c.stops)
	c.watch()
}

func (c *child) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	if c.terminal.isOurs() && isForeground(cmd) {
		// The child takes the terminal by itself before it runs: so it never finds itself in the background.
		c.terminal.lent = true
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, c.terminal.fd
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.pgid = cmd.Process.Pid
	_ = cmd.Process.Release() // we wait by ourselves, to see it stop as well
	return nil
}

// watch returns when the command has ended; if that was asked for, when nothing of its group is left.
func (c *child) watch() {
	for {
		select {
		case <-c.stops:
			_ = c.forward(syscall.SIGTSTP) // if it stops, so do we
		case <-c.changes:
			switch status := c.look(); {
			case status == unchanged:
			case status.Stopped():
				c.stopped(status.StopSignal())
			case status.Exited() || status.Signaled():
				c.awaitGroup()
				return
			}
		}
	}
}

const (
	unchanged = ^syscall.WaitStatus(0)
	forgotten = syscall.WaitStatus(1 << 8) // exit status 1, for one that we cannot learn
)

// look returns what has become of the command since the last look.
func (c *child) look() syscall.WaitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(c.pgid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
	for err == syscall.EINTR {
		pid, err = syscall.Wait4(c.pgid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
	}
	switch {
	case err != nil:
		status = forgotten
	case pid == 0:
		return unchanged
	}
	switch {
	case status.Signaled():
		c.exit = 128 + int(status.Signal())
	case status.Exited():
		c.exit = status.ExitStatus()
	default:
		return status
	}
	c.gone = !c.terminated && !c.killed
	return status
}

const (
	lookForGroup = 10 * time.Millisecond // how often
	lastLooks    = 20                    // after a kill: dead processes that nobody waits for stay in their group for ever
)

// awaitGroup waits for what is left of a group that was told to end. Its id cannot go to another group meanwhile, if
// nobody starts all processes that a system can number between two looks.
func (c *child) awaitGroup() {
	tick := time.NewTicker(lookForGroup)
	defer tick.Stop()
	for looks := lastLooks; looks > 0; {
		gone, killed := c.lookForGroup()
		if gone {
			return
		}
		if killed {
			looks--
		}
		<-tick.C
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

func (c *child) lookForGroup() (gone, killed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		// As the first process of a container we are the one to wait for orphans.
		for pid := 1; pid > 0; pid, _ = syscall.Wait4(-c.pgid, nil, syscall.WNOHANG, nil) {
		}
		c.gone = syscall.Kill(-c.pgid, 0) == syscall.ESRCH
	}
	return c.gone, c.killed
}

// forward sends a signal to the group. Once the command has ended it does nothing, as do terminate and kill.
func (c *child) forward(s os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("there is no signal %v here", s)
	}
	return c.signal(number)
}

// terminate asks all of the group to end (SIGTERM), and lets what is stopped go on to do so. It does not wait. From now on
// done waits for the whole group.
func (c *child) terminate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminated = true
	if err := c.signal(syscall.SIGTERM); err != nil || c.suspended {
		return err
	}
	return c.signal(syscall.SIGCONT)
}

// kill ends all of the group (SIGKILL). It does not wait: done follows, a moment later at the latest once the command
// itself has ended. May be called again.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	return c.signal(syscall.SIGKILL)
}

// signal is to be called with mu held. That nobody is there to get it is no error: look will tell.
func (c *child) signal(s syscall.Signal) error {
	if c.gone {
		return nil
	}
	if err := syscall.Kill(-c.pgid, s); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("send %s to process group %d: %w", unix.SignalName(s), c.pgid, err)
	}
	return nil
}

// done is closed when the command has ended and was waited for, and the terminal is ours again. What the command has left
// running in the background then runs on, unless terminate or kill had been called: then done waits for that too.
func (c *child) done() <-chan struct{} { return c.over }

// status is the command's exit status, or 128+n if signal n ended it. To be called after done.
func (c *child) status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// forwarded returns the signals that are the command's business. One that we were started to ignore (nohup) is none of them:
// the command shall ignore it too, and would not if we caught it.
func forwarded() (signals []os.Signal) {
	for _, s := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}
