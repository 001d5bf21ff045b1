package main

import (
	"errors"
	"time"
)

// lateAfter is how late a start may be before the schedule counts as not kept: well above what a timer on a
// busy machine is off by.
const lateAfter = 10 * time.Millisecond

// errNotStarted stands for a cycle that the schedule asked for and no caller was free to begin.
var errNotStarted = errors.New("no caller was free to begin it before the run ended: -c sets how many there are")

// schedule says when the cycles of an open loop are to start, whatever became of those before. The zero
// value is that of a closed loop.
type schedule struct {
	start time.Time
	rate  int   // starts a second
	total int64 // starts before the end
}

func newSchedule(start, until time.Time, rate int) schedule {
	if rate == 0 {
		return schedule{}
	}
	length := until.Sub(start)
	whole, rest := int64(length/time.Second), int64(length%time.Second)
	second, n := int64(time.Second), int64(rate)
	return schedule{start: start, rate: rate, total: whole*n + (rest*n+second-1)/second}
}

// at is when the n-th cycle is to start, from 0. It adds up no rounding errors.
func (s schedule) at(n int64) time.Time {
	rate := int64(s.rate)
	return s.start.Add(time.Duration(n/rate)*time.Second + time.Duration(n%rate)*time.Second/time.Duration(rate))
}

// after is the first start after t.
func (s schedule) after(t time.Time) time.Time {
	passed := max(t.Sub(s.start), -1)
	whole, rest, rate := int64(passed/time.Second), int64(passed%time.Second), int64(s.rate)
	n := whole*rate + rest*rate/int64(time.Second)
	for n > 0 && s.at(n-1).After(t) {
		n--
	}
	for !s.at(n).After(t) {
		n++
	}
	return s.at(n)
}

// starts tells how well the schedule was kept; after the warm-up alone.
type starts struct {
	Scheduled  int64 `json:"scheduled"`
	Late       int64 `json:"late"`        // started more than 10 ms after their time
	NotStarted int64 `json:"not_started"` // by the end; they are among the failures too
}

func (s *starts) add(other starts) {
	s.Scheduled += other.Scheduled
	s.Late += other.Late
	s.NotStarted += other.NotStarted
}

// note counts a cycle that started so long after its time.
func (s *starts) note(late time.Duration) {
	s.Scheduled++
	if late > lateAfter {
		s.Late++
	}
}
