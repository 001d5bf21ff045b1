package main

import (
	"context"
	"crypto/rand"
	"fmt"
	randv2 "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

// failurePause is the longest pause of a caller whose acquire failed; the actual one is a random part of it.
// Nobody who uses a lock asks again without any pause, and callers in lockstep would split the votes.
const failurePause = 10 * time.Millisecond

// load is a closed loop, where every caller starts its next operation when the one before has ended, or an
// open one, where a schedule says when the next one starts.
type load struct {
	locker   *redlock.Locker
	ttl      time.Duration
	wait     time.Duration // of an acquire; 0: it makes one attempt
	hold     time.Duration // before a release
	schedule schedule      // of the open loop
	next     atomic.Int64  // the first start that no caller has taken yet

	start time.Time // of the warm-up
	from  time.Time // cycles that start earlier are not recorded
	until time.Time // cycles that have started by then are finished and recorded
	ended time.Time // when the last caller was done; set by run

	keys    [][]string // by caller
	callers []*recorder

	contenders []*contender // by caller; none where callers do not contend
	contests   map[string]*contest
}

// newLoad prepares a load whose warm-up begins now. Several lockers are for contending callers alone.
func newLoad(lockers []*redlock.Locker, s settings) *load {
	keys := assignKeys("redlock-bench:"+rand.Text()[:8], s.keys, s.callers)
	start := time.Now()
	l := &load{
		locker: lockers[0],
		ttl:    s.ttl,
		wait:   s.wait,
		hold:   s.hold,
		start:  start,
		from:   start.Add(s.warmUp()),
		until:  start.Add(s.warmUp() + s.duration),
		keys:   keys,
	}
	l.schedule = newSchedule(l.start, l.until, s.rate)
	for range s.callers {
		l.callers = append(l.callers, newRecorder(s.duration))
	}
	if s.contend {
		l.contend(lockers)
	}
	return l
}

// assignKeys deals the keys out to the callers. Only where there are fewer keys than callers do any two
// callers share one.
func assignKeys(prefix string, keys, callers int) [][]string {
	assigned := make([][]string, callers)
	for n := range max(keys, callers) {
		caller := n % callers
		assigned[caller] = append(assigned[caller], fmt.Sprintf("%s:%d", prefix, n%keys))
	}
	return assigned
}

// run returns when every caller has finished the cycle it was in when the time was over or ctx ended.
func (l *load) run(ctx context.Context) {
	caller := l.caller
	if l.schedule.rate > 0 {
		caller = l.openCaller
	}
	var interrupted atomic.Pointer[time.Time]
	defer context.AfterFunc(ctx, func() { now := time.Now(); interrupted.Store(&now) })()
	var group sync.WaitGroup
	for i, r := range l.callers {
		group.Go(func() {
			if len(l.contenders) > 0 {
				l.contendingCaller(ctx, r, l.contenders[i], l.keys[i])
			} else {
				caller(ctx, r, l.keys[i])
			}
		})
	}
	group.Wait()
	l.ended = time.Now()
	if l.schedule.rate > 0 {
		end := l.until
		if at := interrupted.Load(); at != nil {
			end = *at
		}
		l.skipRest(minTime(end, l.until))
	}
}

// caller measures one cycle at least, however slow the nodes and short the duration.
func (l *load) caller(ctx context.Context, r *recorder, keys []string) {
	measured := false
	for n := 0; ctx.Err() == nil; n++ {
		start := time.Now()
		if measured && !start.Before(l.until) {
			return
		}
		measured = !start.Before(l.from)
		if !l.cycle(ctx, r, keys[n%len(keys)], start) {
			pause(ctx, randv2.N(failurePause))
		}
	}
}

// cycle acquires, renews, holds and releases once; the acquire and the whole count from start, which in an open loop
// can be long past. It reports whether it got the lock.
func (l *load) cycle(ctx context.Context, r *recorder, key string, start time.Time) bool {
	recorded := !start.Before(l.from)
	note := func(o operation, latency time.Duration, err error) {
		if recorded {
			r.note(o, latency, err)
		}
	}
	lock, err := l.acquire(ctx, key)
	acquired := time.Now()
	note(acquire, acquired.Sub(start), err)
	if recorded {
		r.track.note(start.Sub(l.from), acquired.Sub(start), err != nil)
	}
	if err != nil {
		return false
	}
	renewErr := lock.Renew(ctx, l.ttl)
	renewed := time.Now()
	note(renew, renewed.Sub(acquired), renewErr)
	pause(ctx, l.hold)
	begun := time.Now()
	releaseErr := lock.Release(ctx)
	released := time.Now()
	note(release, released.Sub(begun), releaseErr)
	if renewErr == nil && releaseErr == nil {
		note(cycle, released.Sub(start), nil)
		r.locks.Add(1)
	}
	return true
}

func (l *load) acquire(ctx context.Context, key string) (*redlock.Lock, error) {
	if l.wait == 0 {
		return l.locker.TryAcquire(ctx, key, l.ttl)
	}
	return l.locker.Acquire(ctx, key, l.ttl, redlock.Wait(l.wait))
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// total merges what the callers recorded, after run.
func (l *load) total() *recorder {
	total := newRecorder(l.until.Sub(l.from))
	for _, r := range l.callers {
		total.add(r)
	}
	return total
}

// timeline is the acquires by the time at which they were to begin; after run.
func (l *load) timeline() []moment {
	var tracks []*track
	for _, r := range l.callers {
		tracks = append(tracks, r.track)
	}
	return timeline(tracks, minTime(l.ended, l.until).Sub(l.from))
}

// locks counts the full cycles so far; it may be called while the load runs.
func (l *load) locks() int64 {
	var n int64
	for _, r := range l.callers {
		n += r.locks.Load()
	}
	return n
}
