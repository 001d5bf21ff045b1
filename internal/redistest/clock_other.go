//go:build !linux

package redistest

import "time"

// clock does not exist outside Linux: newClock fails, and nothing else is called.
type clock struct{}

func newClock() (*clock, error) { return nil, ErrNoCompiler }

func (*clock) args() []string { return nil }

func (*clock) environment() []string { return nil }

func (*clock) readBy(int) error { return nil }

func (*clock) set(time.Duration, float64) {}

func (*clock) close() error { return nil }
