//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// stopped decides what follows from the command having been stopped.
func (c *child) stopped(by syscall.Signal) {
	wantsTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case wantsTerminal && c.terminal.isOurs():
		c.terminal.lendTo(c.pgid)
		c.goOn(true)
	case by == syscall.SIGSTOP && !c.terminal.isWith(c.pgid):
		// Somebody else did it, and will let it go on. The lock is renewed meanwhile.
	default:
		c.suspend(wantsTerminal)
	}
}

// suspend stops us too, as a shell expects of a job that was stopped. When the shell has us go on, so does
// the command; but not if the lock ran out meanwhile.
func (c *child) suspend(wantsTerminal bool) {
	c.mu.Lock()
	c.suspended = true
	c.mu.Unlock()
	hadTerminal := c.terminal.takeBack(c.pgid)
	stopped := c.stopOurselves()
	if wantsTerminal && !stopped && !c.terminal.isOurs() {
		// It would ask again at once, for ever. It stays stopped, until somebody ends it or us.
		c.mu.Lock()
		c.suspended = false
		c.mu.Unlock()
		return
	}
	mayGoOn := c.mayGoOn == nil || c.mayGoOn()
	if mayGoOn && hadTerminal && c.terminal.isOurs() {
		c.terminal.lendTo(c.pgid)
	}
	c.goOn(mayGoOn)
}

// goOn ends a suspension: one way or the other.
func (c *child) goOn(may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended = false
	if may {
		_ = c.signal(syscall.SIGCONT) // a command that we may not signal was not stopped by us either
		return
	}
	c.killed = true
	_ = c.signal(syscall.SIGKILL)
}

// stopOurselves stops us, with our neighbours in the process group, and returns when somebody has us go on. Where
// nobody would, it returns false at once.
func (c *child) stopOurselves() bool {
	if isOrphaned() {
		return false
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(0, syscall.SIGSTOP); err != nil {
		return false
	}
	<-continued // kill may return before we are stopped
	return true
}

// isOrphaned reports whether no shell above us could have our process group go on. Only the kernel knows: in such a group it drops
// SIGTSTP. We cannot try it on ourselves, since Go does not let go of a signal that was caught once.
func isOrphaned() bool {
	probe := exec.Command("/bin/sh", "-c", "kill -TSTP $$")
	if err := probe.Start(); err != nil {
		return true
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(probe.Process.Pid, &status, syscall.WUNTRACED, nil)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(probe.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		_ = probe.Process.Release()
		return true
	}
	_ = probe.Process.Kill()
	_ = probe.Wait() // it was killed
	return false
}
