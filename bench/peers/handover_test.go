package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var shortHandOvers = handOverPlan{
	pairs: 1, ours: 10, theirs: 4, box: time.Minute, waited: 300 * time.Millisecond, spread: 100 * time.Millisecond,
}

func TestHandOverIsTimedFromTheReleaseToTheWaitersReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(7 * time.Millisecond)
		h := handOvers(t.Context(), lockers{w, w}, shortHandOvers, 10)
		if len(h.took) != 10 || h.early != 0 || h.failed != 0 {
			t.Fatalf("%d handed over, %d early, %d failed", len(h.took), h.early, h.failed)
		}
		if low, high := quantile(h.took, 0), quantile(h.took, 1); low != 0.007 || high != 0.007 {
			t.Errorf("took %v to %v", low, high)
		}
		if len(w.free) != 1 {
			t.Error("the key is still held")
		}
	})
}

func TestHandOverBeforeTheReleaseIsAViolationAndNoSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWaiter{open: true}
		h := handOvers(t.Context(), lockers{w, w}, shortHandOvers, 3)
		if len(h.took) != 0 || h.early != 3 {
			t.Errorf("%d handed over, %d early", len(h.took), h.early)
		}
	})
}

func TestHandOversEndWithTheirBox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shortHandOvers
		p.box = time.Second
		start := time.Now()
		w := newFakeWaiter(0)
		h := handOvers(t.Context(), lockers{w, w}, p, 1000)
		if took := time.Since(start); took > p.box+p.waited+p.spread || len(h.took) < 2 || len(h.took) > 4 {
			t.Errorf("%d handed over in %v", len(h.took), took)
		}
	})
}

// failingWaiter fails every second time and passes the other calls on.
type failingWaiter struct {
	waiter
	calls int
}

func (w *failingWaiter) wait(ctx context.Context, key string) (held, error) {
	if w.calls++; w.calls%2 == 0 {
		return nil, errFake
	}
	return w.waiter.wait(ctx, key)
}

func TestRelayGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(0)
		h := handOvers(t.Context(), lockers{w, &failingWaiter{waiter: w}}, shortHandOvers, 6)
		if h.failed == 0 || len(h.took) == 0 || h.failed+len(h.took) != 6 || !errors.Is(h.failure, errFake) {
			t.Errorf("%d handed over, %d failed with %v", len(h.took), h.failed, h.failure)
		}
	})
}

// countingWaiter counts its waits and passes them on.
type countingWaiter struct {
	waiter
	waits int
}

func (w *countingWaiter) wait(ctx context.Context, key string) (held, error) {
	w.waits++
	return w.waiter.wait(ctx, key)
}

func TestLockersTakeTurnsInWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(0)
		first, second := &countingWaiter{waiter: w}, &countingWaiter{waiter: w}
		handOvers(t.Context(), lockers{first, second}, shortHandOvers, 4)
		if first.waits != 1+2 || second.waits != 2 { // the first begins as the holder
			t.Errorf("the first waited %d times, the second %d times", first.waits, second.waits)
		}
	})
}

func TestHandOversAreSpreadOverThePairs(t *testing.T) {
	p := planOf(config{}).handOver
	for _, lib := range libraries() {
		least := 20
		if lib.name == nameRedlock {
			least = 100
		}
		if n := p.pairs * p.each(lib); n < least {
			t.Errorf("%s: %d hand-overs per round, want %d", lib.name, n, least)
		}
	}
}
