//go:build unix && !linux

package redistest

import "syscall"

// processAttributes gives the child a process group of its own, so that a Ctrl-C on the terminal reaches
// only us: the load must still find its servers while it releases what it holds.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
