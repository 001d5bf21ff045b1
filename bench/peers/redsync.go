package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncSession struct {
	rs      *redsync.Redsync
	options []redsync.Option
	clients []*redis.Client
}

func openRedsync(_ context.Context, urls []string, poolSize int) (session, error) {
	return newRedsyncSession(urls, poolSize, redsync.WithExpiry(ttl))
}

func openRedsyncFailFast(_ context.Context, urls []string, poolSize int) (session, error) {
	return newRedsyncSession(urls, poolSize, redsync.WithExpiry(ttl), redsync.WithFailFast(true))
}

func newRedsyncSession(urls []string, poolSize int, options ...redsync.Option) (session, error) {
	clients, err := newClients(urls, poolSize)
	if err != nil {
		return nil, err
	}
	pools := make([]redsyncredis.Pool, len(clients))
	for i, c := range clients {
		pools[i] = goredis.NewPool(c)
	}
	return &redsyncSession{rs: redsync.New(pools...), options: options, clients: clients}, nil
}

func (s *redsyncSession) acquire(ctx context.Context, key string) (held, error) {
	mutex := s.rs.NewMutex(key, s.options...)
	if err := mutex.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{mutex}, nil
}

// wait goes on for as long as ctx allows, at the library's own pace: its default is 32 attempts, then failure.
func (s *redsyncSession) wait(ctx context.Context, key string) (held, error) {
	mutex := s.rs.NewMutex(key, append(slices.Clip(s.options), redsync.WithTries(math.MaxInt))...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{mutex}, nil
}

func (s *redsyncSession) close() error { return closeClients(s.clients) }

type redsyncHeld struct{ mutex *redsync.Mutex }

var errNotReleased = errors.New("not released on a quorum")

func (h redsyncHeld) Release(ctx context.Context) error {
	ok, err := h.mutex.UnlockContext(ctx)
	if !ok {
		return errors.Join(errNotReleased, err)
	}
	return nil // an error beside ok tells of a minority, which is no failure of the lock
}
