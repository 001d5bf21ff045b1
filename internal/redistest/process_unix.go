//go:build unix

package redistest

import (
	"os"
	"syscall"
)

const canSuspend = true

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
