package main

import (
	"context"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock"
)

// contest is what the contending callers of one key tell each other.
type contest struct {
	released atomic.Int64 // when the last release began, in nanoseconds since the load's start
	_        [56]byte     // keys do not share a cache line
}

// contender is one caller of contending ones; it alone writes it.
type contender struct {
	locker    *redlock.Locker
	handOvers *hdrhistogram.Histogram
	grants    int64
}

// contention is how a key went from hand to hand.
type contention struct {
	HandOver      latencies `json:"hand_over"`       // from the begin of a release to the return of a waiting acquire
	LongestWaitUs float64   `json:"longest_wait_us"` // of an acquire, whatever became of it
	LeastGrants   int64     `json:"least_grants"`    // of the caller that got the fewest
	MostGrants    int64     `json:"most_grants"`
}

// openLockers opens as many as the settings ask for: each stands for a process of its own.
func openLockers(urls []string, s settings) ([]*redlock.Locker, error) {
	var options []redlock.Option
	if s.fencing {
		options = append(options, redlock.WithFencing())
	}
	var lockers []*redlock.Locker
	for range max(s.lockers, 1) {
		locker, err := redlock.Open(urls, options...)
		if err != nil {
			return nil, errors.Join(err, closeLockers(lockers))
		}
		lockers = append(lockers, locker)
	}
	return lockers, nil
}

func closeLockers(lockers []*redlock.Locker) error {
	var errs []error
	for _, locker := range lockers {
		errs = append(errs, locker.Close())
	}
	return errors.Join(errs...)
}

// contend deals the callers out to the lockers.
func (l *load) contend(lockers []*redlock.Locker) {
	l.contests = make(map[string]*contest)
	for i, keys := range l.keys {
		l.contenders = append(l.contenders, &contender{locker: lockers[i%len(lockers)], handOvers: newHistogram()})
		for _, key := range keys {
			l.contests[key] = new(contest)
		}
	}
}

// contendingCaller acquires, holds and releases, over and over, until the time is over or ctx ends.
func (l *load) contendingCaller(ctx context.Context, r *recorder, c *contender, keys []string) {
	for n := 0; ctx.Err() == nil; n++ {
		key, start := keys[n%len(keys)], time.Now()
		if !start.Before(l.until) {
			return
		}
		lock, err := c.locker.Acquire(ctx, key, l.ttl, redlock.Wait(l.wait))
		granted := time.Now()
		recorded := !start.Before(l.from)
		if recorded {
			r.note(acquire, granted.Sub(start), err)
			r.track.note(start.Sub(l.from), granted.Sub(start), err != nil)
		}
		if err != nil {
			pause(ctx, randv2.N(failurePause))
			continue
		}
		k := l.contests[key]
		if released := l.start.Add(time.Duration(k.released.Load())); recorded && start.Before(released) {
			record(c.handOvers, granted.Sub(released))
		}
		pause(ctx, l.hold)
		begun := time.Now()
		k.released.Store(int64(begun.Sub(l.start)))
		err = lock.Release(ctx)
		released := time.Now()
		if recorded {
			c.grants++
			r.note(release, released.Sub(begun), err)
			if err == nil {
				r.note(cycle, released.Sub(start), nil)
			}
		}
		r.locks.Add(1)
	}
}

// contention sums up what the callers saw; after run. Nil where they did not contend.
func (l *load) contention(total *recorder) *contention {
	if len(l.contenders) == 0 {
		return nil
	}
	handOvers := newHistogram()
	c := &contention{LeastGrants: l.contenders[0].grants}
	for _, one := range l.contenders {
		handOvers.Merge(one.handOvers)
		c.LeastGrants = min(c.LeastGrants, one.grants)
		c.MostGrants = max(c.MostGrants, one.grants)
	}
	c.HandOver = latenciesOf(handOvers)
	c.LongestWaitUs = latenciesOf(total.successes[acquire]).Max
	for _, f := range total.failures[acquire] {
		if f != nil {
			c.LongestWaitUs = max(c.LongestWaitUs, latenciesOf(f.latencies).Max)
		}
	}
	return c
}

func writeContention(b *strings.Builder, r *result) {
	c := r.Contention
	if c == nil {
		return
	}
	t := table{left: 1}
	t.row("", "count", "p50", "p90", "p99", "p99.9", "max")
	t.row(append([]string{"hand-over", grouped(c.HandOver.Count)}, c.HandOver.columns()...)...)
	t.write(b)
	b.WriteString(wrapped(fmt.Sprintf("longest wait %s; grants of the least served caller %s, of the most served %s",
		microText(c.LongestWaitUs), grouped(c.LeastGrants), grouped(c.MostGrants)), "", lineWidth))
}
