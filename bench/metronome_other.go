//go:build !linux

package main

import "time"

// startMetronome does nothing: only on Linux is it known how to make timers precise, and that they are not.
func startMetronome(func() time.Time) (stop func(), err error) { return func() {}, nil }
