package main

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestNoLoopTrackingNeedsANewServer(t *testing.T) {
	for version, want := range map[string]bool{
		"7.0.4": false, "7.0.5": true, "7.0.15": true, "6.2.14": false, "7.2.0": true, "8.0.0": true, "7.0": false,
		"valkey 7.2.5": true, "(unknown version)": false, "": false,
	} {
		if got := allowsNoLoop(version); got != want {
			t.Errorf("allowsNoLoop(%q) = %v", version, got)
		}
	}
}

func TestReleaseOfALostRueidislockFailsAndReleases(t *testing.T) {
	lifetime, lose := context.WithCancel(t.Context())
	released := 0
	h := rueidislockHeld{lifetime, func() { released++ }}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	lose()
	if err := h.Release(t.Context()); !errors.Is(err, errLostBefore) || released != 2 {
		t.Errorf("%v, released %d times", err, released)
	}
}

// lateLocker grants just after the caller's ctx has ended.
type lateLocker struct {
	rueidislock.Locker
	end, release context.CancelFunc
}

func (l lateLocker) WithContext(ctx context.Context, _ string) (context.Context, context.CancelFunc, error) {
	l.end()
	return ctx, l.release, nil
}

func TestRueidislockGrantedAfterTheEndOfCtxIsReleased(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	released := 0
	s := rueidislockSession{lateLocker{end: cancel, release: func() { released++ }}}
	if lock, err := s.wait(ctx, "key"); lock != nil || !errors.Is(err, context.Canceled) || released != 1 {
		t.Errorf("%v, %v, released %d times", lock, err, released)
	}
}

// oneNode returns the URLs of one and what counts the keys on it.
func oneNode(t *testing.T) (urls []string, keys func() int64) {
	t.Helper()
	urls = redistest.URLs(redistest.ForTest(t, 1))
	opts, err := redis.ParseURL(urls[0])
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return urls, func() int64 { return client.DBSize(t.Context()).Val() }
}

func openedRueidislock(t *testing.T, urls []string) waiter {
	t.Helper()
	s, err := openRueidislock(t.Context(), urls, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.(waiter)
}

func TestRueidislockOutlivesTheCtxItWaitedWith(t *testing.T) {
	urls, keys := oneNode(t)
	s := openedRueidislock(t, urls)
	defer s.close()
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := s.wait(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	time.Sleep(20 * time.Millisecond)
	if keys() != 1 {
		t.Error("the end of ctx released the lock")
	}
	if err := lock.Release(t.Context()); err != nil || keys() != 0 {
		t.Errorf("%v, %d keys after the release", err, keys())
	}
}

func TestRueidislockLeavesNoGoroutine(t *testing.T) {
	urls, keys := oneNode(t)
	keys() // connects
	before := runtime.NumGoroutine()
	s := openedRueidislock(t, urls)
	lock, err := s.acquire(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.wait(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited in vain: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if keys() != 0 {
		t.Error("a key is left")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
