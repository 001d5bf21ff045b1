package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSession grants after a fixed time. It blocks a key for which stuck is set until unstick is closed.
type fakeSession struct {
	acquireTakes, releaseTakes time.Duration
	fail                       func(n int) bool // whether a caller's n-th acquire fails
	stuckFrom                  int              // a caller's n-th cycle on; 0 for never
	unstick                    chan struct{}

	mu   sync.Mutex
	keys map[string]bool
}

var errFake = errors.New("refused by the fake")

func (s *fakeSession) acquire(_ context.Context, key string) (held, error) {
	n, err := strconv.Atoi(key[strings.LastIndex(key, ":")+1:])
	if err != nil {
		return nil, err
	}
	if s.stuckFrom > 0 && n >= s.stuckFrom {
		<-s.unstick
	}
	time.Sleep(s.acquireTakes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] {
		return nil, errors.New("key used twice")
	}
	s.keys[key] = true
	if s.fail != nil && s.fail(n) {
		return nil, errFake
	}
	return fakeHeld{s.releaseTakes}, nil
}

func (s *fakeSession) close() error { return nil }

type fakeHeld struct{ takes time.Duration }

func (h fakeHeld) Release(context.Context) error {
	time.Sleep(h.takes)
	return nil
}

func TestWorkloadTimesAcquireAndReleaseApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSession{acquireTakes: 3 * time.Millisecond, releaseTakes: time.Millisecond, keys: map[string]bool{}}
		w := startWorkload(t.Context(), s, 10, time.Second)
		m := w.collect(t.Context(), time.Second)
		w.wait()
		// 250 cycles of 4 ms fit into a second; the last ends with it and not before.
		if m.cycles != 10*249 || len(m.acquire) != 2500 || m.stuck != 0 || m.acquireFailed != 0 {
			t.Errorf("%d cycles, %d acquired, %d stuck, %d failed", m.cycles, len(m.acquire), m.stuck, m.acquireFailed)
		}
		if p := quantile(m.acquire, 0.99); p != 0.003 {
			t.Errorf("acquire p99 %v", p)
		}
		if p := quantile(m.release, 0.99); p != 0.001 {
			t.Errorf("release p99 %v", p)
		}
	})
}

func TestWorkloadCountsFailuresApartFromCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSession{acquireTakes: time.Millisecond, fail: func(n int) bool { return n%2 == 0 }, keys: map[string]bool{}}
		w := startWorkload(t.Context(), s, 1, 10500*time.Microsecond)
		m := w.collect(t.Context(), 10500*time.Microsecond)
		w.wait()
		if m.cycles != 5 || m.acquireFailed != 6 || !errors.Is(m.failure, errFake) || len(m.acquire) != 5 {
			t.Errorf("%d cycles, %d failed with %v, %d acquired", m.cycles, m.acquireFailed, m.failure, len(m.acquire))
		}
	})
}

func TestStuckCallersAreCountedAndNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSession{acquireTakes: time.Millisecond, stuckFrom: 3, unstick: make(chan struct{}), keys: map[string]bool{}}
		start := time.Now()
		w := startWorkload(t.Context(), s, 4, time.Second)
		m := w.collect(t.Context(), time.Second)
		if took := time.Since(start); took != time.Second+grace {
			t.Errorf("collected after %v", took)
		}
		if m.stuck != 4 || m.cycles != 12 {
			t.Errorf("%d stuck, %d cycles", m.stuck, m.cycles)
		}
		close(s.unstick)
		w.wait()
	})
}

func TestCancelledRunEndsItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &fakeSession{acquireTakes: time.Millisecond, keys: map[string]bool{}}
		start := time.Now()
		w := startWorkload(ctx, s, 4, time.Hour)
		time.AfterFunc(time.Second, cancel)
		w.collect(ctx, time.Hour)
		w.wait()
		if took := time.Since(start); took > time.Second+time.Millisecond {
			t.Errorf("ended after %v", took)
		}
	})
}
