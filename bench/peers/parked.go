package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	parkedHold  = time.Minute     // ttl of the foreign key, and what the waiters' ctx allows: longer than a measurement
	parkedGrace = 5 * time.Second // who has not returned so long after ctx ended is stuck
)

type parkedPlan struct {
	waiters         int
	settle, measure time.Duration
}

// runParked measures what waiting itself costs where nothing happens: waiters on a key that a stranger holds.
func (b *waitingBench) runParked(ctx context.Context) error {
	r := newReport("waiters, share of one core", shown("this process", formatPercent), shown("the servers", formatPercent),
		shown("goroutines", formatWhole), shown("all back after", formatSeconds), summed("stuck"), summed(columnViolations), summed(columnFailed))
	p := b.plan.parked
	err := b.parkedTurn(ctx, library{}, nil, "nobody waits", r)
	if err == nil {
		err = b.turns(ctx, sectionParked, func(lib library) error { return b.parkedTurns(ctx, lib, r) })
	}
	b.print(r, fmt.Sprintf("Parked: %s on a key that a stranger holds, CPU time over %v after %v",
		count(p.waiters, "waiter"), p.measure, p.settle))
	return err
}

// parkedTurns has the waiters in one locker, then in one each.
func (b *waitingBench) parkedTurns(ctx context.Context, lib library, r *report) error {
	n := b.plan.parked.waiters
	for _, lockersOpen := range []int{1, n} {
		callers := n / lockersOpen // of each
		row := fmt.Sprintf("%s, %s × %s", lib.name, count(lockersOpen, "locker"), count(callers, "caller"))
		err := b.withLockers(ctx, lib, lockersOpen, callers, func(all lockers) error {
			return b.parkedTurn(ctx, lib, all, row, r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parkedTurn spreads the waiters over the lockers; with no lockers it measures what there is without waiters.
func (b *waitingBench) parkedTurn(ctx context.Context, lib library, all lockers, row string, r *report) (err error) {
	key := newKey()
	if err := b.probes.hold(ctx, key, parkedHold); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.probes.drop(ctx, key)) }()
	waiting, cancel := context.WithTimeout(ctx, parkedHold)
	defer cancel()
	parking := &parkingLot{}
	if len(all) > 0 {
		for i := range b.plan.parked.waiters {
			parking.enter(waiting, all[i%len(all)], key)
		}
	}
	sleep(ctx, b.plan.parked.settle)
	spent, err := b.spend(ctx, b.plan.parked.measure)
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	goroutines := runtime.NumGoroutine()
	cancel()
	back, stuck := parking.empty(parkedGrace)
	if len(all) == 0 {
		back = math.NaN()
	}
	granted, failed := parking.granted.Load(), parking.failed.Load()
	b.mustBeZero(lib, "parked", "waiters stuck after the end of their ctx", stuck)
	b.mustBeZero(lib, "parked", "grants of a key that was held", int(granted))
	r.add(row, parking.failure(), spent.process, spent.servers, float64(goroutines), back,
		float64(stuck), float64(granted), float64(failed))
	return nil
}

// spending is CPU time as a share of one core.
type spending struct{ process, servers float64 }

// spend measures over d.
func (b *waitingBench) spend(ctx context.Context, d time.Duration) (spending, error) {
	start := time.Now()
	processBefore, err1 := processCPU()
	serversBefore, err2 := b.probes.cpuSeconds(ctx)
	sleep(ctx, d)
	processAfter, err3 := processCPU()
	serversAfter, err4 := b.probes.cpuSeconds(ctx)
	took := time.Since(start).Seconds()
	return spending{
		process: (processAfter - processBefore).Seconds() / took,
		servers: (serversAfter - serversBefore) / took,
	}, errors.Join(err1, err2, err3, err4)
}

// A parkingLot is where the waiters are. None of them should get the key, and each should stay until ctx ends.
type parkingLot struct {
	inside          sync.WaitGroup
	count           atomic.Int64
	granted, failed atomic.Int64
	cause           atomic.Pointer[error]
}

func (p *parkingLot) enter(ctx context.Context, w waiter, key string) {
	p.count.Add(1)
	p.inside.Go(func() {
		defer p.count.Add(-1)
		lock, err := w.wait(ctx, key)
		switch {
		case err == nil:
			p.granted.Add(1)
			_ = lock.Release(context.WithoutCancel(ctx))
		case ctx.Err() == nil:
			p.failed.Add(1)
			p.cause.Store(&err)
		}
	})
}

func (p *parkingLot) failure() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// empty waits for the last waiter, at most for the grace, and returns the seconds that took and how many are
// stuck.
func (p *parkingLot) empty(grace time.Duration) (took float64, stuck int) {
	start := time.Now()
	done := make(chan struct{})
	go func() { // ends with the last waiter
		p.inside.Wait()
		close(done)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return time.Since(start).Seconds(), 0
	case <-timer.C:
		return time.Since(start).Seconds(), int(p.count.Load())
	}
}
