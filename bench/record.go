package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock"
)

// operation is what a latency belongs to.
type operation int

const (
	acquire operation = iota
	renew
	release
	cycle // the three as a whole, when all went well
	operations
)

func (o operation) String() string {
	return [...]string{"acquire", "renew", "release", "full cycle"}[o]
}

// errorClass is what a failure is counted under.
type errorClass int

const (
	lost errorClass = iota
	cancelled
	held
	noQuorum
	notStarted
	other
	errorClasses
)

func (c errorClass) String() string {
	return [...]string{"lost", "cancelled", "held", "no quorum", "not started", "other"}[c]
}

// classify looks for the gravest class first: an error can be in several.
func classify(err error) errorClass {
	switch {
	case errors.Is(err, redlock.ErrLost):
		return lost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return cancelled
	case errors.Is(err, redlock.ErrHeld):
		return held
	case errors.Is(err, redlock.ErrNoQuorum):
		return noQuorum
	case errors.Is(err, errNotStarted):
		return notStarted
	}
	return other
}

// Latencies are recorded in nanoseconds to within 1 %, from 0.1 µs to a minute.
const (
	leastLatency   = 100
	longestLatency = int64(time.Minute)
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(leastLatency, longestLatency, 2)
}

func record(h *hdrhistogram.Histogram, latency time.Duration) {
	_ = h.RecordValue(min(int64(latency), longestLatency)) // fails beyond the longest alone
}

// recorder keeps what one caller measures. Only that caller writes it, so that recording takes no lock.
type recorder struct {
	successes [operations]*hdrhistogram.Histogram
	failures  [operations][errorClasses]*failures
	track     *track // acquires over time
	starts    starts // of an open loop

	locks atomic.Int64 // full cycles, warm-up included; read by the progress line meanwhile
	_     [64]byte     // keeps the next caller's counter off this cache line
}

// failures are those of one operation and class.
type failures struct {
	latencies *hdrhistogram.Histogram
	example   string
}

// newRecorder is for a run that measures for the given time.
func newRecorder(duration time.Duration) *recorder {
	r := &recorder{track: newTrack(duration)}
	for o := range r.successes {
		r.successes[o] = newHistogram()
	}
	return r
}

// note records how one operation ended.
func (r *recorder) note(o operation, latency time.Duration, err error) {
	if err == nil {
		record(r.successes[o], latency)
		return
	}
	f := &r.failures[o][classify(err)]
	if *f == nil {
		*f = &failures{latencies: newHistogram(), example: err.Error()}
	}
	record((*f).latencies, latency)
}

// add merges another caller's figures, but for its track, into r; neither may be in use.
func (r *recorder) add(from *recorder) {
	for o := range from.successes {
		r.successes[o].Merge(from.successes[o])
		for c, f := range from.failures[o] {
			if f == nil {
				continue
			}
			if r.failures[o][c] == nil {
				r.failures[o][c] = &failures{latencies: newHistogram(), example: f.example}
			}
			r.failures[o][c].latencies.Merge(f.latencies)
		}
	}
	r.starts.add(from.starts)
	r.locks.Add(from.locks.Load())
}
