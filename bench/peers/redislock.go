package main

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockSession struct {
	locker  *redislock.Client
	clients []*redis.Client
}

// openRedislock uses the first node alone: the library knows no quorum.
func openRedislock(_ context.Context, urls []string, poolSize int) (session, error) {
	clients, err := newClients(urls[:1], poolSize)
	if err != nil {
		return nil, err
	}
	return &redislockSession{locker: redislock.New(clients[0]), clients: clients}, nil
}

func (s *redislockSession) acquire(ctx context.Context, key string) (held, error) {
	lock, err := s.locker.Obtain(ctx, key, ttl, nil)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (s *redislockSession) close() error { return closeClients(s.clients) }
