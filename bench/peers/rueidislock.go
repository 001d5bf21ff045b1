package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const rueidislockGiven = "KeyMajority 1, KeyValidity as the ttl (it renews by itself), NoLoopTracking where the server allows (Redis ≥ 7.0.5), " +
	"else default options: one connection for all callers, an attempt ends after 20 ms, a release tells of no failure"

type rueidislockSession struct{ locker rueidislock.Locker }

// openRueidislock uses the first node alone: with more, the library spreads its keys over the shards of a cluster,
// which is no quorum of nodes that vote on their own. It brings its own client, with one connection for all callers.
func openRueidislock(ctx context.Context, urls []string, _ int) (session, error) {
	client, err := rueidis.ParseURL(urls[0])
	if err != nil {
		return nil, err
	}
	version, err := serverVersion(ctx, urls[0])
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   client,
		KeyMajority:    1,
		KeyValidity:    ttl,
		NoLoopTracking: allowsNoLoop(version),
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockSession{locker: locker}, nil
}

// acquire binds the lock to ctx, as the library does, which releases it when ctx ends. A cycle is over by then.
func (s *rueidislockSession) acquire(ctx context.Context, key string) (held, error) {
	lifetime, release, err := s.locker.TryWithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidislockHeld{lifetime, release}, nil
}

// wait lets ctx end the wait and not the lock, as with the other libraries: a hand-over outlives the ctx it waited
// with. A deadline of ctx is kept from the library too, which would shorten the ttl to it.
func (s *rueidislockSession) wait(ctx context.Context, key string) (held, error) {
	waiting, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	lifetime, release, err := s.locker.WithContext(waiting, key)
	if err != nil {
		detach()
		end()
		return nil, errors.Join(ctx.Err(), err)
	}
	lock := rueidislockHeld{lifetime, func() { release(); end() }}
	if !detach() {
		lock.release()
		return nil, ctx.Err()
	}
	return lock, nil
}

// close finds no lock held, so no goroutine of the library is left that renews one.
func (s *rueidislockSession) close() error {
	s.locker.Close()
	return nil
}

// rueidislockHeld has a goroutine of the library behind it, which renews the lock until release.
type rueidislockHeld struct {
	lifetime context.Context
	release  context.CancelFunc // returns when that goroutine has deleted the key, or failed to, which it does not tell
}

var errLostBefore = errors.New("lost before its release")

// Release always releases, or the goroutine would stay.
func (h rueidislockHeld) Release(context.Context) error {
	lost := h.lifetime.Err() != nil
	h.release()
	if lost {
		return errLostBefore
	}
	return nil
}

// allowsNoLoop tells whether a server of this version, as serverVersion shows it, is at least Redis 7.0.5, from
// which the library's documentation allows NoLoopTracking. Every Valkey is newer.
func allowsNoLoop(version string) bool {
	if strings.HasPrefix(version, "valkey ") {
		return true
	}
	fields := strings.Split(version, ".")
	for i, least := range []int{7, 0, 5} {
		if i >= len(fields) {
			return false
		}
		n, err := strconv.Atoi(fields[i])
		if err != nil || n < least {
			return false
		}
		if n > least {
			return true
		}
	}
	return true
}
