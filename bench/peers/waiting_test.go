package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/redistest"
)

var shortPlan = plan{
	handOver: handOverPlan{
		pairs: 1, ours: 2, theirs: 1, box: 2 * time.Second, waited: 20 * time.Millisecond, spread: 10 * time.Millisecond,
	},
	contest: 200 * time.Millisecond,
	lockers: 3,
	crowd:   crowdPlan{callers: 4, each: 1, box: time.Second},
	parked:  parkedPlan{waiters: 3, settle: 20 * time.Millisecond, measure: 50 * time.Millisecond},
}

func TestEverySectionMeasuresEveryLibraryOnRealServers(t *testing.T) {
	servers := redistest.ForTest(t, 3)
	var out strings.Builder
	b := &bench{
		cfg:     config{waiting: true, rounds: 1, nodes: 3, pool: poolDefault},
		servers: servers, urls: redistest.URLs(servers), out: output{Writer: &out},
	}
	if err := b.runWaiting(t.Context(), shortPlan); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"Hand-over:", "Contention:", "Tight loop:", "Crowd:", "Parked:",
		"redlock, TryAcquire in a loop", "redsync, 1 locker × 3 callers", "redsync-failfast, 3 lockers × 1 caller", "| rueidislock ",
		"hand-over p50, redsync (best mode): ", "contention, grants: ", "contention, longest wait: ", "crowd, commands per grant: ",
		"hand-over p50, rueidislock on ONE node: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing %q in\n%s", want, out.String())
		}
	}
	for _, bad := range []string{"failed with", "with failures", "none x"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q in\n%s", bad, out.String())
		}
	}
}

func TestSectionsCanBePicked(t *testing.T) {
	servers := redistest.ForTest(t, 1)
	var out strings.Builder
	b := &bench{
		cfg:     config{waiting: true, rounds: 1, nodes: 1, pool: poolDefault, only: []string{nameRedlock}, sections: []string{"crowd"}},
		servers: servers, urls: redistest.URLs(servers), out: output{Writer: &out},
	}
	if err := b.runWaiting(t.Context(), shortPlan); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "Crowd:") || strings.Contains(got, "Parked:") || strings.Contains(got, "Ratios") {
		t.Errorf("got\n%s", got)
	}
}

func TestWaitOfOursHasNoLimitButCtx(t *testing.T) {
	const byDefault = 750 * time.Millisecond // the wait limit of Acquire where ctx has no deadline
	servers := redistest.ForTest(t, 1)
	s, err := openRedlock(t.Context(), redistest.URLs(servers), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	first, err := s.acquire(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(byDefault+250*time.Millisecond, func() { _ = first.Release(t.Context()) })
	if _, err := s.(waiter).wait(t.Context(), "key"); err != nil {
		t.Error(err)
	}
}

func TestOnlyOurOwnBrokenPromisesFailTheRun(t *testing.T) {
	b := waitingBench{}
	b.mustBeZero(library{name: nameRedsync}, "contention", "violations", 1)
	b.mustBeZero(library{name: nameRedlock}, "contention", "violations", 0)
	if len(b.broken) != 0 {
		t.Errorf("broken: %v", b.broken)
	}
	b.mustBeZero(library{name: nameRedlock}, "contention", "violations", 2)
	if len(b.broken) != 1 || b.broken[0].Error() != "contention: redlock: 2 violations, must be none" {
		t.Errorf("broken: %v", b.broken)
	}
}

// deafWaiter does not heed ctx.
type deafWaiter struct {
	*fakeWaiter
	let chan struct{}
}

func (w deafWaiter) wait(context.Context, string) (held, error) {
	<-w.let
	return nil, errFake
}

func TestParkingLotTellsWhoIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		taken, deaf := newFakeWaiter(0), deafWaiter{let: make(chan struct{})}
		<-taken.free
		var p parkingLot
		p.enter(ctx, taken, "key")
		p.enter(ctx, deaf, "key")
		time.Sleep(time.Second)
		cancel()
		if took, stuck := p.empty(5 * time.Second); took != 5 || stuck != 1 {
			t.Errorf("%d stuck after %v s", stuck, took)
		}
		close(deaf.let)
		if _, stuck := p.empty(5 * time.Second); stuck != 0 || p.granted.Load() != 0 || p.failed.Load() != 0 {
			t.Errorf("%d stuck, %d granted, %d failed", stuck, p.granted.Load(), p.failed.Load())
		}
	})
}

func TestParkingLotTellsWhoGotOrLostWhatCouldNotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p parkingLot
		failing := &failingWaiter{waiter: newFakeWaiter(0)}
		p.enter(t.Context(), failing, "key")
		synctest.Wait()
		p.enter(t.Context(), failing, "key")
		if _, stuck := p.empty(time.Second); stuck != 0 || p.granted.Load() != 1 || p.failed.Load() != 1 || p.failure() != errFake {
			t.Errorf("%d stuck, %d granted, %d failed with %v", stuck, p.granted.Load(), p.failed.Load(), p.failure())
		}
	})
}
