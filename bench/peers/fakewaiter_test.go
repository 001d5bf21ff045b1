package main

import (
	"context"
	"time"

	"github.com/redlock-go/redlock"
)

// fakeWaiter is a lock within the process. Whoever waits gets it in order of arrival, a fixed time after it is free.
type fakeWaiter struct {
	free  chan struct{}
	takes time.Duration
	open  bool // grants without regard to others
}

func newFakeWaiter(takes time.Duration) *fakeWaiter {
	w := &fakeWaiter{free: make(chan struct{}, 1), takes: takes}
	w.free <- struct{}{}
	return w
}

func (w *fakeWaiter) wait(ctx context.Context, _ string) (held, error) {
	if w.open {
		return fakeGrant{}, nil
	}
	select {
	case <-w.free:
		time.Sleep(w.takes)
		return fakeGrant{w.free}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *fakeWaiter) acquire(context.Context, string) (held, error) {
	time.Sleep(w.takes)
	select {
	case <-w.free:
		return fakeGrant{w.free}, nil
	default:
		return nil, redlock.ErrHeld
	}
}

func (w *fakeWaiter) close() error { return nil }

type fakeGrant struct{ free chan struct{} }

func (g fakeGrant) Release(context.Context) error {
	if g.free != nil {
		g.free <- struct{}{}
	}
	return nil
}
