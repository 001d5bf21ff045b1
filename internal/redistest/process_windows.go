package redistest

import (
	"errors"
	"os"
	"syscall"
)

var errNoSuspend = errors.New("pause and resume are not supported on Windows")

const canSuspend = false

func suspend(*os.Process) error { return errNoSuspend }

func resume(*os.Process) error { return errNoSuspend }

// processAttributes gives the child a process group of its own, so that a Ctrl-C in the console reaches
// only us: the load must still find its servers while it releases what it holds.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
