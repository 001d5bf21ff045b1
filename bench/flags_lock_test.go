package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHoldAndFencingAreTaken(t *testing.T) {
	s, err := parseFlags([]string{"-hold", "5ms", "-fencing"})
	require.NoError(t, err)
	require.Equal(t, 5*time.Millisecond, s.hold)
	require.True(t, s.fencing)
}

func TestWrongFlagsOfTheLockSayWhatToDo(t *testing.T) {
	for args, want := range map[string][]string{
		"-hold 31s":          {"-hold", "0s to 30s"},
		"-hold -1s":          {"-hold", "0s to 30s"},
		"-hold 10s":          {"-hold 10s", "ttl of 10s", "longer -ttl"},
		"-hold 1s -ttl 1s":   {"-hold 1s", "ttl of 1s"},
		"-hold 20ms -ttl 1h": nil,
		"-fencing=7":         {"-fencing", "true or false"},
	} {
		_, err := parseFlags(strings.Fields(args))
		if want == nil {
			require.NoError(t, err, args)
		}
		for _, part := range want {
			require.ErrorContains(t, err, part, args)
		}
	}
}

func TestHeldLocksTakeThatLongAndTheInputsTell(t *testing.T) {
	status, r, stderr := runJSON(t, t.Context(), "-d", "200ms", "-c", "2", "-hold", "20ms", "-fencing")
	require.Equal(t, exitMeasured, status, stderr)
	require.Equal(t, 20.0, r.Inputs.HoldMs)
	require.True(t, r.Inputs.Fencing)
	require.GreaterOrEqual(t, r.Results[cycle].P50, 19_800.0, "to within 1 %")
	require.Less(t, r.Results[release].P50, 19_000.0, "the hold is no part of the release")
	require.Contains(t, strings.Join(r.Notes, "\n"), "holds each lock for 20 ms")
}

func TestFencingOpensLockersThatGiveFences(t *testing.T) {
	urls, _ := givenNodes(t, 3)
	for _, fencing := range []bool{false, true} {
		lockers, err := openLockers(urls, settings{fencing: fencing})
		require.NoError(t, err)
		lock, err := lockers[0].TryAcquire(t.Context(), "k", time.Second)
		require.NoError(t, err)
		require.Equal(t, fencing, lock.Fence() > 0)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, closeLockers(lockers))
	}
}

func TestHoldAndFencingAreSeenInTableComparisonAndPage(t *testing.T) {
	before, after := sample(), sample()
	after.Inputs.HoldMs, after.Inputs.Fencing = 5, true
	require.Equal(t, []difference{{"hold", "0 ms", "5 ms"}, {"fencing", "no", "yes"}}, differences(before, after))
	require.Contains(t, setUp(after), "ttl 10 s, held for 5 ms, with fences;")
	text := words(reported(t, after))
	require.Contains(t, text, "hold 5 ms")
	require.Contains(t, text, "fencing yes")
}
