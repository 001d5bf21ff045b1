//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is our controlling terminal, as far as it has a foreground: the process group that may read from it, and that its keys
// (Ctrl-C, Ctrl-Z) reach. Where we have none, fd is -1 and nothing has an effect. SIGTTOU must be ignored to change the foreground.
type terminal struct {
	fd   int
	lent bool // to a child's group
}

func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &terminal{fd: fd}
}

func (t *terminal) close() {
	if t.fd >= 0 {
		_ = syscall.Close(t.fd)
	}
}

// foreground returns the process group in the foreground, 0 if there is none.
func (t *terminal) foreground() int {
	value, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	bits := uint64(value) // the kernel fills in half of it, which half depends on the byte order
	return int(int32(bits | bits>>32))
}

func (t *terminal) setForeground(pgid int) error {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid)
}

func (t *terminal) isWith(pgid int) bool { return pgid > 0 && t.foreground() == pgid }

func (t *terminal) isOurs() bool { return t.isWith(ourGroup()) }

// lendTo brings a child's group to the foreground.
func (t *terminal) lendTo(pgid int) { t.lent = t.setForeground(pgid) == nil }

// takeBack brings us back to the foreground, and reports whether the child's group was there. It leaves the terminal
// to whoever got it from the child, or from our shell while we were in the background, unless they are dead.
func (t *terminal) takeBack(pgid int) bool {
	if !t.lent {
		return false
	}
	now := t.foreground()
	if now != pgid && syscall.Kill(-now, 0) != syscall.ESRCH {
		return false
	}
	t.lent = false
	return t.setForeground(ourGroup()) == nil
}

func ourGroup() int {
	pgid, _ := unix.Getpgid(0) // cannot fail
	return pgid
}

// isForeground reports whether a command shall have the terminal from the beginning: if it can read from it, and is
// not part of a pipeline, where another part may want the terminal too. Else it gets the terminal when it asks.
func isForeground(cmd *exec.Cmd) bool {
	stdin, isFile := cmd.Stdin.(*os.File)
	return isFile && term.IsTerminal(int(stdin.Fd())) && !isPipe(cmd.Stdout)
}

func isPipe(w any) bool {
	file, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}
