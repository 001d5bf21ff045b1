package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestContestCountsGrantsAndTheLongestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(time.Millisecond)
		c := contest{length: 100*time.Millisecond - time.Microsecond}
		o := c.run(t.Context(), []contender{
			waits(w, 9*time.Millisecond, time.Millisecond),
			waits(w, 9*time.Millisecond, time.Millisecond),
		})
		// One grant each 10 ms, in turn: who pauses 1 ms then waits for 9 ms, and 1 ms for the grant.
		if o.grants() != 10 || o.longest() != 11*time.Millisecond || o.violations != 0 || o.failed() != 0 {
			t.Errorf("%d grants, longest wait %v, %d violations, %d failed", o.grants(), o.longest(), o.violations, o.failed())
		}
		if least, most := o.extremes(); least != 5 || most != 5 {
			t.Errorf("from %d to %d grants", least, most)
		}
	})
}

func TestContestFindsHoldersBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWaiter{open: true}
		c := contest{length: time.Second, quota: 1}
		o := c.run(t.Context(), []contender{waits(w, time.Millisecond, 0), waits(w, time.Millisecond, 0)})
		if o.violations != 1 {
			t.Errorf("%d violations", o.violations)
		}
	})
}

func TestWaitThatLastsToTheEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(0)
		<-w.free // held by somebody else
		c := contest{length: time.Second}
		o := c.run(t.Context(), []contender{waits(w, 0, 0)})
		if o.grants() != 0 || o.longest() != time.Second || o.failed() != 0 {
			t.Errorf("%d grants, longest wait %v, %d failed", o.grants(), o.longest(), o.failed())
		}
	})
}

func TestFailuresDoNotCutAWaitShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		fails := func(context.Context, string) (held, error) {
			time.Sleep(90 * time.Millisecond)
			if calls++; calls%10 == 0 {
				return fakeGrant{}, nil
			}
			return nil, errFake
		}
		c := contest{length: time.Minute, quota: 2}
		o := c.run(t.Context(), []contender{{acquire: fails}})
		if o.grants() != 2 || o.failed() != 18 || !errors.Is(o.failure(), errFake) || o.longest() != 990*time.Millisecond {
			t.Errorf("%d grants, %d failed with %v, longest wait %v", o.grants(), o.failed(), o.failure(), o.longest())
		}
	})
}

func TestRefusedAttemptIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWaiter(time.Millisecond)
		<-w.free
		c := contest{length: 100*time.Millisecond - time.Microsecond}
		o := c.run(t.Context(), []contender{{acquire: w.acquire, attempts: true}})
		if o.served[0].refused != 99 || o.failed() != 0 || o.grants() != 0 {
			t.Errorf("%d refused, %d failed, %d grants", o.served[0].refused, o.failed(), o.grants())
		}
	})
}

func TestContestEndsOnceAtTheQuotaOrAtItsLength(t *testing.T) {
	for quota, want := range map[int]time.Duration{3: 30 * time.Millisecond, 0: 35 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ended := 0
			c := contest{length: 35 * time.Millisecond, quota: quota, atEnd: func() { ended++ }}
			o := c.run(t.Context(), []contender{waits(newFakeWaiter(0), 10*time.Millisecond, 0)})
			if ended != 1 || o.took != want {
				t.Errorf("quota %d: ended %d times, after %v", quota, ended, o.took)
			}
		})
	}
}

func TestWaitersAreSentAwayAfterTheEndAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		start := time.Now()
		slow := func(ctx context.Context, _ string) (held, error) {
			<-ctx.Done()
			back = time.Since(start)
			time.Sleep(time.Second)
			return nil, ctx.Err()
		}
		c := contest{length: time.Second, atEnd: func() { time.Sleep(50 * time.Millisecond) }}
		o := c.run(t.Context(), []contender{{acquire: slow}})
		if back != 1050*time.Millisecond {
			t.Errorf("sent away after %v", back)
		}
		if o.longest() != time.Second || o.took != time.Second {
			t.Errorf("what comes after the end is counted: longest wait %v, took %v", o.longest(), o.took)
		}
	})
}

func TestInterruptedContestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c := contest{length: time.Hour}
		o := c.run(ctx, []contender{waits(newFakeWaiter(0), time.Millisecond, 5*time.Millisecond)})
		if o.took > 2*time.Second {
			t.Errorf("ended after %v", o.took)
		}
	})
}
