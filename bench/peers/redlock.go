package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

type redlockSession struct {
	locker *redlock.Locker
	nodes  int
}

func openRedlock(ctx context.Context, urls []string, _ int) (session, error) {
	locker, err := redlock.Open(urls)
	if err != nil {
		return nil, err
	}
	s := redlockSession{locker: locker, nodes: len(urls)}
	if err := s.awaitAllVotes(ctx); err != nil {
		return nil, errors.Join(err, locker.Close())
	}
	return s, nil
}

func (s redlockSession) acquire(ctx context.Context, key string) (held, error) {
	lock, err := s.locker.TryAcquire(ctx, key, ttl)
	if err != nil {
		return nil, err // a nil *Lock must not become a non-nil held
	}
	return lock, nil
}

func (s redlockSession) wait(ctx context.Context, key string) (held, error) {
	lock, err := s.locker.Acquire(ctx, key, ttl, redlock.Wait(0))
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (s redlockSession) close() error { return s.locker.Close() }

// awaitAllVotes returns once every node's vote counts. Spawned nodes are young: where some of them are a second
// older than the guard window and the others are not yet, the others' votes are withheld for the rest of it, and
// a measurement of the healthy state would be one of an outage.
func (s redlockSession) awaitAllVotes(ctx context.Context) error {
	var last error
	for end := time.Now().Add(ttl + 5*time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		lock, err := s.locker.TryAcquire(ctx, "peers:ready", ttl)
		if err != nil {
			last = err
			time.Sleep(20 * time.Millisecond)
			continue
		}
		time.Sleep(5 * time.Millisecond) // the votes after the quorum's arrive after the call has returned
		nodes := lock.Nodes()
		if last = lock.Release(ctx); last == nil && nodes == s.nodes {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("not all %d nodes vote: %w", s.nodes, last)
}
