package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScheduleStartsAllAndOnlyWhatIsBeforeTheEnd(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		rate   int
		length time.Duration
		total  int64
	}{
		{0, time.Hour, 0},
		{1, 10 * time.Millisecond, 1},
		{1, time.Second, 1},
		{1, time.Second + 1, 2},
		{3, time.Second, 3},
		{500, 12300 * time.Millisecond, 6150},
		{maxRate, 24*time.Hour + 1, 24*3600*maxRate + 1},
	} {
		s := newSchedule(start, start.Add(c.length), c.rate)
		require.Equal(t, c.total, s.total, "%d a second for %v", c.rate, c.length)
		if c.rate > 0 {
			require.True(t, s.at(s.total-1).Before(start.Add(c.length)))
			require.False(t, s.at(s.total).Before(start.Add(c.length)))
		}
	}
}

func TestScheduleDoesNotDrift(t *testing.T) {
	start := time.Now()
	s := newSchedule(start, start.Add(24*time.Hour), 7)
	require.Equal(t, start, s.at(0))
	require.Equal(t, start.Add(time.Second/7), s.at(1))
	require.Equal(t, start.Add(20*time.Hour), s.at(7*20*3600))
}

func TestStartsAreLateAfterTenMilliseconds(t *testing.T) {
	var s starts
	for _, late := range []time.Duration{-time.Microsecond, 0, lateAfter, lateAfter + 1, time.Hour} {
		s.note(late)
	}
	s.add(starts{Scheduled: 10, Late: 1, NotStarted: 4})
	require.Equal(t, starts{Scheduled: 15, Late: 3, NotStarted: 4}, s)
}

func TestNextStartIsTheFirstAfterAnInstant(t *testing.T) {
	start := time.Now()
	for _, rate := range []int{1, 3, 7, 500, maxRate} {
		s := newSchedule(start, start.Add(time.Hour), rate)
		require.Equal(t, start, s.after(start.Add(-time.Hour)))
		for n := range int64(3000) {
			require.Equal(t, s.at(n+1), s.after(s.at(n)))
			require.Equal(t, s.at(n), s.after(s.at(n).Add(-1)))
		}
	}
}
