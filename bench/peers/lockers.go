package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
)

// A waiter is a session whose library can wait, for as long as ctx allows, until a key is free.
type waiter interface {
	session
	wait(ctx context.Context, key string) (held, error)
}

// lockers are sessions of one library that share no connection, like so many processes.
type lockers []waiter

// warmCycles is how often a locker takes a key of its own before the measurement. Some clients connect only when
// two calls overlap, and a late reply of the first cycle can overlap the second.
const warmCycles = 3

// withLockers opens n lockers for one turn and closes them after it, as turn does. Each serves so many callers.
func (b *waitingBench) withLockers(ctx context.Context, lib library, n, callers int, measure func(lockers) error) (err error) {
	var all lockers
	defer func() { err = errors.Join(err, all.close()) }()
	for range n {
		s, err := lib.open(ctx, b.urls, b.cfg.poolSize(callers))
		if err != nil {
			return err
		}
		w, ok := s.(waiter)
		if !ok {
			return errors.Join(fmt.Errorf("%s does not wait", lib.name), s.close())
		}
		all = append(all, w)
		warm(ctx, w)
	}
	runtime.GC() // of what earlier turns left
	return measure(all)
}

// warm connects a locker and loads its scripts. A failure shows in the measurement as well, if it lasts.
func warm(ctx context.Context, w waiter) {
	for range warmCycles {
		if lock, err := w.acquire(ctx, newKey()); err == nil {
			_ = lock.Release(ctx)
		}
	}
}

func (all lockers) close() error {
	var errs []error
	for _, w := range all {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

// newKey returns a key that no other measurement has used, see keyRun.
func newKey() string { return "peers:" + strconv.FormatInt(keyRun.Add(1), 36) }
