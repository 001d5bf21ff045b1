package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// grace is what callers get after the end of a measurement to finish the cycle they are in. Who is not back by
// then is counted as stuck.
const grace = 250 * time.Millisecond

// keyRun makes the keys of one measurement differ from those of every other: a key left behind must not refuse
// a later caller.
var keyRun atomic.Int64

// A workload is one measurement while it runs: callers that acquire and release, each on its own keys.
type workload struct {
	session session
	prefix  string
	ends    time.Time
	callers []*caller
	done    sync.WaitGroup
	before  uint64 // bytes the process had allocated at the start
}

// A caller keeps its own samples, so that recording one costs no contention. The mutex is there for a snapshot
// taken while the caller is stuck.
type caller struct {
	mu      sync.Mutex
	samples samples
	busy    bool
}

// samples is what callers saw.
type samples struct {
	cycles        int // acquired and released before the end
	acquireFailed int
	releaseFailed int
	stuck         int
	allocated     uint64          // bytes, by the whole process: the callers' own part is small and the same for all
	acquire       []time.Duration // of the calls that succeeded
	release       []time.Duration
	failure       error // one of them, to name the cause
	length        time.Duration
}

// startWorkload starts the callers; they end by themselves at the end of d or when ctx ends, and whoever is stuck
// in a call then ends with that call.
func startWorkload(ctx context.Context, s session, callers int, d time.Duration) *workload {
	w := &workload{session: s, prefix: "peers:" + strconv.FormatInt(keyRun.Add(1), 36) + ":", before: allocatedBytes()}
	w.ends = time.Now().Add(d)
	for i := range callers {
		c := &caller{busy: true}
		w.callers = append(w.callers, c)
		w.done.Go(func() { w.loop(ctx, c, w.prefix+strconv.Itoa(i)+":") })
	}
	return w
}

func (w *workload) loop(ctx context.Context, c *caller, prefix string) {
	for i := 0; time.Now().Before(w.ends) && ctx.Err() == nil; i++ {
		w.cycle(ctx, c, prefix+strconv.Itoa(i))
	}
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
}

func (w *workload) cycle(ctx context.Context, c *caller, key string) {
	start := time.Now()
	lock, err := w.session.acquire(ctx, key)
	acquired := time.Now()
	if !c.acquired(acquired.Sub(start), err) {
		return
	}
	err = lock.Release(ctx)
	released := time.Now()
	c.released(released.Sub(acquired), err, released.Before(w.ends))
}

func (c *caller) acquired(took time.Duration, err error) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.samples.acquireFailed++
		c.samples.failure = err
		return false
	}
	c.samples.acquire = append(c.samples.acquire, took)
	return true
}

func (c *caller) released(took time.Duration, err error, inTime bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.samples.releaseFailed++
		c.samples.failure = err
		return
	}
	c.samples.release = append(c.samples.release, took)
	if inTime {
		c.samples.cycles++
	}
}

// collect waits for the callers, at most until the grace is over, and adds up what they saw. Callers stuck by
// then go on; wait is for them.
func (w *workload) collect(ctx context.Context, length time.Duration) samples {
	finished := make(chan struct{})
	go func() { // owned by wait: it ends with the callers
		w.done.Wait()
		close(finished)
	}()
	timer := time.NewTimer(time.Until(w.ends.Add(grace)))
	defer timer.Stop()
	select {
	case <-finished:
	case <-timer.C:
	case <-ctx.Done():
	}
	total := samples{length: length, allocated: allocatedBytes() - w.before}
	for _, c := range w.callers {
		c.addTo(&total)
	}
	return total
}

func (c *caller) addTo(total *samples) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total.cycles += c.samples.cycles
	total.acquireFailed += c.samples.acquireFailed
	total.releaseFailed += c.samples.releaseFailed
	total.acquire = append(total.acquire, c.samples.acquire...)
	total.release = append(total.release, c.samples.release...)
	if c.samples.failure != nil {
		total.failure = c.samples.failure
	}
	if c.busy {
		total.stuck++
	}
}

func allocatedBytes() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// wait blocks until the last caller is back.
func (w *workload) wait() { w.done.Wait() }
