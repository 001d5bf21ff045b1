package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// startMetronome makes timers precise at the instants that next returns, one after the other, until stop is
// called. An idle Go process on Linux sleeps in whole milliseconds, so that its timers go off up to one too
// late: several times what an acquire takes on a local network. A timer of the kernel's, among the files
// that the runtime waits for, wakes it in time.
func startMetronome(next func() time.Time) (stop func(), err error) {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("a precise timer: %w", errno)
	}
	file := os.NewFile(fd, "timerfd") // non-blocking: the runtime polls it
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("a precise timer: %w", err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		var expirations [8]byte
		for {
			var failed syscall.Errno
			err := raw.Control(func(fd uintptr) { failed = setTimer(fd, time.Until(next())) })
			if err != nil || failed != 0 {
				return
			}
			if _, err := file.Read(expirations[:]); err != nil {
				return
			}
		}
	})
	return func() {
		_ = file.Close()
		group.Wait()
	}, nil
}

// setTimer makes the timer go off once; a time of 0 would switch it off.
func setTimer(fd uintptr, in time.Duration) syscall.Errno {
	setting := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(max(in, 1)))} // the first is a period: none
	_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	return errno
}
