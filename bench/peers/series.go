package main

import "fmt"

// A series is one library at one number of callers in one condition of the nodes, over the rounds. All its slices
// have one entry per round; NaN stands for a time of which there was no sample.
type series struct {
	rate                                           []float64 // cycles per second
	acquireP50, acquireP99, releaseP50, releaseP99 []float64 // seconds
	allocated                                      []float64 // bytes per cycle; NaN where there was none
	acquireFailed, releaseFailed                   int       // over all rounds
	stuck                                          int       // callers, over all rounds
	failure                                        error     // one cause of the failed
}

func (s *series) add(m samples) {
	s.rate = append(s.rate, float64(m.cycles)/m.length.Seconds())
	s.acquireP50 = append(s.acquireP50, quantile(m.acquire, 0.50))
	s.acquireP99 = append(s.acquireP99, quantile(m.acquire, 0.99))
	s.releaseP50 = append(s.releaseP50, quantile(m.release, 0.50))
	s.releaseP99 = append(s.releaseP99, quantile(m.release, 0.99))
	s.allocated = append(s.allocated, ratio(float64(m.allocated), float64(m.cycles)))
	s.acquireFailed += m.acquireFailed
	s.releaseFailed += m.releaseFailed
	s.stuck += m.stuck
	if m.failure != nil {
		s.failure = m.failure
	}
}

func (s *series) clean() bool { return s.acquireFailed == 0 && s.releaseFailed == 0 && s.stuck == 0 }

// A place says what a series is about.
type place struct {
	library string
	callers int
	stopped int // nodes
}

// results are the series of a section by their place.
type results map[place]*series

func (r results) at(p place) *series {
	if r[p] == nil {
		r[p] = &series{}
	}
	return r[p]
}

var seriesHeader = []string{"cycles/s", "acquire p50", "acquire p99", "release p50", "release p99", "heap/cycle", "failed", "stuck"}

func (s *series) cells() []string {
	return []string{
		spreadOf(s.rate).format(formatRate),
		spreadOf(s.acquireP50).format(formatSeconds),
		spreadOf(s.acquireP99).format(formatSeconds),
		spreadOf(s.releaseP50).format(formatSeconds),
		spreadOf(s.releaseP99).format(formatSeconds),
		formatKilobytes(spreadOf(s.allocated)),
		s.failedCell(),
		fmt.Sprint(s.stuck),
	}
}

func (s *series) failedCell() string {
	if s.acquireFailed == 0 && s.releaseFailed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d acq %d rel", s.acquireFailed, s.releaseFailed)
}
