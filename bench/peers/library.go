package main

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Names as they stand in tables and in -only.
const (
	nameRedlock         = "redlock"
	nameRedsync         = "redsync"
	nameRedsyncFailFast = "redsync-failfast"
	nameRedislock       = "redislock"
	nameRueidislock     = "rueidislock"
)

// A library is one side of the comparison.
type library struct {
	name  string
	given string // what it was given, printed so that a reader can judge whether that was fair
	open  func(ctx context.Context, urls []string, poolSize int) (session, error)
	waits string // as given, with -waiting; empty for a library that takes no part in it
	// The sections of -waiting in which it takes part; none for all.
	sections []string
}

// A session is a library connected to its nodes. It is safe for concurrent use.
type session interface {
	acquire(ctx context.Context, key string) (held, error)
	close() error
}

// held is one acquired key.
type held interface {
	Release(ctx context.Context) error
}

// libraries lists them in the order in which they take turns.
func libraries() []library {
	return []library{
		{
			name: nameRedlock, open: openRedlock,
			given: "redlock.Open(urls) with default options, TryAcquire, all nodes",
			waits: "redlock.Open(urls) with default options for each locker, Acquire with Wait(0), all nodes",
		},
		{
			name: nameRedsync, open: openRedsync,
			given: "default options but the expiry, TryLockContext (one attempt), all nodes; " + clientGiven,
			waits: "default options but the expiry and WithTries(no end), LockContext, all nodes; for each locker a " + clientGiven,
		},
		{
			name: nameRedsyncFailFast, open: openRedsyncFailFast,
			given: "the same with WithFailFast(true); " + clientGiven,
			waits: "the same with WithFailFast(true)",
		},
		{
			name: nameRedislock, open: openRedislock,
			given: "bsm/redislock, Obtain with nil options (one attempt), the first node ALONE; " + clientGiven,
		},
		{
			name: nameRueidislock, open: openRueidislock,
			given: "rueidis/rueidislock, TryWithContext (one attempt), the first node ALONE; " + rueidislockGiven,
			waits: "rueidis/rueidislock for each locker, WithContext, the first node ALONE, woken by client-side caching; " + rueidislockGiven,
			// Not parked: the stranger's key has a name that it does not ask for. Not greedy, which is about quorums.
			sections: []string{sectionHandOver, sectionContention, sectionCrowd},
		},
	}
}

// waitingNames are the libraries that take part in -waiting.
func waitingNames() []string {
	var names []string
	for _, lib := range libraries() {
		if lib.waits != "" {
			names = append(names, lib.name)
		}
	}
	return names
}

// takesPart is for libraries that can wait.
func (l library) takesPart(section string) bool {
	return len(l.sections) == 0 || slices.Contains(l.sections, section)
}

func libraryNames() []string {
	var names []string
	for _, lib := range libraries() {
		names = append(names, lib.name)
	}
	return names
}

const clientGiven = "go-redis client per node with default options but PoolSize, see above"

// newClients builds one client per URL for a library that brings none, with go-redis' defaults, as the libraries'
// own introductions do, but for the number of connections.
func newClients(urls []string, poolSize int) ([]*redis.Client, error) {
	clients := make([]*redis.Client, 0, len(urls))
	for _, url := range urls {
		opts, err := redis.ParseURL(url)
		if err != nil {
			return nil, errors.Join(err, closeClients(clients))
		}
		opts.PoolSize = poolSize
		clients = append(clients, redis.NewClient(opts))
	}
	return clients, nil
}

func closeClients(clients []*redis.Client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
