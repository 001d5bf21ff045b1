package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestContendingCallersAreAllServed(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	status, r, stderr := runJSON(t, t.Context(), "-spawn", "3", "-contend", "-c", "6", "-lockers", "3", "-d", "1s")
	require.Equal(t, exitMeasured, status, stderr)
	require.Equal(t, 1, r.Inputs.Keys)
	require.Equal(t, 3, r.Inputs.Lockers)
	require.NotNil(t, r.Contention)
	c := r.Contention
	require.Positive(t, c.LeastGrants)
	require.LessOrEqual(t, c.LeastGrants, c.MostGrants)
	require.Positive(t, c.HandOver.Count)
	require.LessOrEqual(t, c.HandOver.Count, r.locks())
	require.LessOrEqual(t, c.HandOver.P50, r.Results[acquire].P50, "part of the wait")
	require.GreaterOrEqual(t, c.LongestWaitUs, r.Results[acquire].Max)
	require.Empty(t, r.Failures)
	require.Zero(t, r.Results[renew].Count)
}
