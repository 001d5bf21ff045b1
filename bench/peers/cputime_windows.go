package main

import (
	"syscall"
	"time"
)

// processCPU is the CPU time that this process has used.
func processCPU() (time.Duration, error) {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return ticks(kernel) + ticks(user), nil
}

// ticks reads a length of time; Filetime.Nanoseconds would take it for a date.
func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) * 100 * time.Nanosecond
}
