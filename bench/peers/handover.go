package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// handOverLimit ends a hand-over that does not come about.
const handOverLimit = 30 * time.Second

type handOverPlan struct {
	pairs          int           // of lockers, each with a key of its own, at the same time: most of the time is spent asleep
	ours, theirs   int           // hand-overs per round, over all pairs: a library that polls takes longer, one that is woken makes as many as ours
	waited, spread time.Duration // a waiter has waited this long, and a random part of spread, when the holder releases
	box            time.Duration // no hand-over begins after it
}

// each is the number of hand-overs of one pair.
func (p handOverPlan) each(lib library) int {
	all := p.theirs
	if lib.name == nameRedlock || lib.name == nameRueidislock {
		all = p.ours
	}
	return (all + p.pairs - 1) / p.pairs
}

// runHandOver measures how long a key lies idle between a holder that releases it and a waiter.
func (b *waitingBench) runHandOver(ctx context.Context) error {
	r := newReport("library", shown("p50", formatSeconds), shown("p90", formatSeconds), shown("max", formatSeconds),
		summed("count"), summed(columnViolations), summed(columnFailed))
	p := b.plan.handOver
	err := b.turns(ctx, sectionHandOver, func(lib library) error {
		return b.withLockers(ctx, lib, 2*p.pairs, 1, func(all lockers) error {
			h := handOvers(ctx, all, p, p.each(lib))
			b.mustBeZero(lib, "handover", "violations", h.early)
			r.add(lib.name, h.failure, quantile(h.took, 0.50), quantile(h.took, 0.90), quantile(h.took, 1),
				float64(len(h.took)), float64(h.early), float64(h.failed))
			return nil
		})
	})
	b.print(r, fmt.Sprintf("Hand-over: one locker of two holds, the other has waited for %v to %v; from before the release to the waiter's return; %s at a time",
		p.waited, p.waited+p.spread, count(p.pairs, "pair")))
	b.comparisons = append(b.comparisons, r.theirsOverOurs("hand-over p50", "p50")...)
	return err
}

// handedOver is what pairs of lockers saw.
type handedOver struct {
	took    []time.Duration
	early   int // the waiter had the key before the holder released it
	failed  int
	failure error // one of them
}

func (h *handedOver) add(other handedOver) {
	h.took = append(h.took, other.took...)
	h.early += other.early
	h.failed += other.failed
	if other.failure != nil {
		h.failure = other.failure
	}
}

func (h *handedOver) fail(err error) {
	h.failed++
	h.failure = err
}

// handOvers lets all pairs make so many hand-overs each.
func handOvers(ctx context.Context, all lockers, p handOverPlan, each int) handedOver {
	var (
		pairs sync.WaitGroup
		seen  = make([]handedOver, len(all)/2)
		ends  = time.Now().Add(p.box)
	)
	for i := range seen {
		pairs.Go(func() {
			r := relay{holder: all[2*i], waiter: all[2*i+1], key: newKey()}
			seen[i] = r.run(ctx, p, each, ends)
		})
	}
	pairs.Wait()
	var total handedOver
	for _, h := range seen {
		total.add(h)
	}
	return total
}

// A relay is a key that two lockers hand to and fro.
type relay struct {
	holder, waiter waiter
	key            string
	lock           held // the holder's; nil after a failure
}

func (r *relay) run(ctx context.Context, p handOverPlan, each int, ends time.Time) (h handedOver) {
	for range each {
		if ctx.Err() != nil || time.Now().After(ends) {
			break
		}
		took, err := r.pass(ctx, p.waited+rand.N(p.spread))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			h.fail(err)
		case took < 0:
			h.early++
		default:
			h.took = append(h.took, took)
		}
	}
	if r.lock != nil {
		if err := r.lock.Release(ctx); err != nil && ctx.Err() == nil {
			h.fail(err)
		}
	}
	return h
}

// pass hands the key over once, after the other locker has waited so long, and swaps the two.
func (r *relay) pass(ctx context.Context, waited time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, handOverLimit)
	defer cancel()
	if r.lock == nil {
		lock, err := r.holder.wait(ctx, r.key)
		if err != nil {
			return 0, err
		}
		r.lock = lock
	}
	arrived := r.await(ctx)
	sleep(ctx, waited)
	released := time.Now()
	err := r.lock.Release(ctx)
	a := <-arrived
	r.lock = a.lock
	r.holder, r.waiter = r.waiter, r.holder
	return a.at.Sub(released), errors.Join(err, a.err)
}

type arrival struct {
	lock held
	at   time.Time
	err  error
}

// await starts the waiter. It arrives by the end of ctx.
func (r *relay) await(ctx context.Context) <-chan arrival {
	arrived := make(chan arrival, 1)
	w := r.waiter
	go func() { // pass receives what it sends
		lock, err := w.wait(ctx, r.key)
		arrived <- arrival{lock, time.Now(), err}
	}()
	return arrived
}
