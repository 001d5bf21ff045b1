package main

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestOpenLoopStartsWhatTheScheduleSays(t *testing.T) {
	status, r, stderr := runJSON(t, t.Context(), "-rate", "100", "-d", "500ms", "-c", "20")
	require.Equal(t, exitMeasured, status, stderr)
	require.Equal(t, "open", r.Inputs.Loop)
	require.Equal(t, 750.0, r.Inputs.WaitMs)
	require.EqualValues(t, 50, r.Schedule.Scheduled)
	require.EqualValues(t, 50, r.locks())
	require.Len(t, r.Timeline, 5)
	for _, m := range r.Timeline {
		require.EqualValues(t, 10, m.Acquired)
	}
	require.Contains(t, r.Notes[0], "open loop")
}

func TestBacklogCountsFromTheSchedule(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs delays that are right to the millisecond, and timers of Windows are not")
	}
	redistest.ForTest(t, 1) // skips where there is none
	// One caller, three round trips of 5 ms each: some 60 cycles a second, of 90.
	status, r, stderr := runJSON(t, t.Context(), "-rtt", "5ms,5ms,5ms", "-rate", "90", "-d", "1s", "-c", "1")
	require.Equal(t, exitMeasured, status, stderr)
	require.EqualValues(t, 90, r.Schedule.Scheduled)
	require.Positive(t, r.Schedule.NotStarted)
	require.Positive(t, r.Schedule.Late)
	require.Greater(t, r.Results[acquire].P50, 50e3, "most of it the time before it was begun")
	require.Less(t, r.Results[release].P50, 50e3, "from its own start")
	require.Contains(t, r.Schedule.text(), "NOT kept")
	require.Greater(t, r.Timeline[9].Failed+r.Timeline[8].Failed, int64(10), "not started")
}

func TestWhatNoCallerWasFreeForIsNotStarted(t *testing.T) {
	// One caller that waits for nodes that are not there can begin a few of the 50 at most.
	status, r, _ := runJSON(t, t.Context(), "-nodes", unreachable, "-rate", "100", "-d", "500ms", "-c", "1", "-wait", "2s")
	require.Equal(t, exitNothing, status)
	require.EqualValues(t, 50, r.Schedule.Scheduled)
	require.Positive(t, r.Schedule.NotStarted)
	var failed, onTime int64
	for _, f := range r.Failures {
		failed += f.Count
		if f.Class == "not started" {
			require.Equal(t, r.Schedule.NotStarted, f.Count)
		}
	}
	for _, m := range r.Timeline {
		onTime += m.Failed
	}
	require.EqualValues(t, 50, failed)
	require.EqualValues(t, 50, onTime)
}

func TestCallersAreAsManyAsASecondStarts(t *testing.T) {
	require.Equal(t, 1, settings{}.defaultCallers(), "closed loop")
	require.Equal(t, 256, settings{rate: 1}.defaultCallers())
	require.Equal(t, 500, settings{rate: 500}.defaultCallers())
	require.Equal(t, 1024, settings{rate: maxRate}.defaultCallers())
}

func TestFlagsOfTheLoadAreTaken(t *testing.T) {
	s, err := parseFlags([]string{"-rate", "500", "-wait", "0s", "-rtt", "1ms, 0s,2.5ms", "-fault", "kill:2@1s"})
	require.NoError(t, err)
	require.Equal(t, 3, s.spawn, "implied")
	require.Equal(t, 500, s.callers)
	require.Zero(t, s.wait)
	require.Equal(t, []time.Duration{time.Millisecond, 0, 2500 * time.Microsecond}, s.rtts)
	require.Len(t, s.faults, 1)
	s, err = parseFlags([]string{"-rate", "5", "-c", "3"})
	require.NoError(t, err)
	require.Equal(t, 3, s.callers)
	require.Equal(t, defaultWait, s.wait)
}

func TestWrongFlagsOfTheLoadAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"1 to 100000":                   {"-rate", "0"},
		"add -rate N or -contend":       {"-wait", "1s"},
		"exclude each other":            {"-rate", "5", "-contend"},
		"add -contend":                  {"-lockers", "2"},
		"more than 0s":                  {"-contend", "-wait", "0s"},
		"1 to 256":                      {"-contend", "-lockers", "0"},
		"0s to 1m":                      {"-rate", "1", "-wait", "2m"},
		"add -spawn N":                  {"-fault", "kill:0@1s"},
		`-fault: "kill:3@1s": there is`: {"-spawn", "3", "-fault", "kill:3@1s"},
		`-fault: "x": not a fault`:      {"-spawn", "3", "-fault", "x"},
		"leave out -nodes":              {"-nodes", "redis://a", "-rtt", "1ms"},
		"has 2 round trips for the 3":   {"-spawn", "3", "-rtt", "1ms,2ms"},
		`number 2, "5"`:                 {"-rtt", "1ms,5"},
		`number 1, "-1ms"`:              {"-rtt", "-1ms"},
	} {
		_, err := parseFlags(args)
		require.ErrorContains(t, err, want, args)
		require.NotContains(t, err.Error(), "\n", args)
	}
}
