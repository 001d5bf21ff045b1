package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestErrorsAreClassifiedByTheGravestClass(t *testing.T) {
	for want, err := range map[errorClass]error{
		held:      fmt.Errorf("acquire: %w", redlock.ErrHeld),
		noQuorum:  fmt.Errorf("acquire: %w", redlock.ErrNoQuorum),
		cancelled: errors.Join(redlock.ErrNoQuorum, context.Canceled),
		lost:      errors.Join(redlock.ErrLost, context.Canceled),
		other:     redlock.ErrClosed,
	} {
		require.Equal(t, want, classify(err), "%v", err)
	}
	require.Equal(t, cancelled, classify(context.DeadlineExceeded))
}

func TestFailuresAreKeptApartFromSuccesses(t *testing.T) {
	r := newRecorder(time.Second)
	r.note(acquire, time.Millisecond, nil)
	r.note(acquire, time.Second, redlock.ErrHeld)
	r.note(acquire, 2*time.Second, fmt.Errorf("later: %w", redlock.ErrHeld))
	r.note(renew, time.Hour, redlock.ErrLost)
	require.EqualValues(t, 1, r.successes[acquire].TotalCount())
	require.InDelta(t, 1000, latenciesOf(r.successes[acquire]).Max, 10)
	require.EqualValues(t, 2, r.failures[acquire][held].latencies.TotalCount())
	require.Equal(t, redlock.ErrHeld.Error(), r.failures[acquire][held].example, "the first one")
	require.EqualValues(t, 1, r.failures[renew][lost].latencies.TotalCount(), "beyond the longest latency still counts")
	require.Nil(t, r.failures[acquire][noQuorum])
}

func TestCallersAreMergedWithoutLoss(t *testing.T) {
	total := newRecorder(time.Second)
	for i := range 3 {
		r := newRecorder(time.Second)
		for n := range 100 {
			r.note(acquire, time.Duration(100*i+n+1)*time.Microsecond, nil)
		}
		r.note(release, time.Millisecond, fmt.Errorf("caller %d: %w", i, redlock.ErrNoQuorum))
		r.locks.Add(5)
		total.add(r)
	}
	got := latenciesOf(total.successes[acquire])
	require.EqualValues(t, 300, got.Count)
	require.InEpsilon(t, 150, got.P50, 0.01)
	require.InEpsilon(t, 297, got.P99, 0.01)
	require.InEpsilon(t, 300, got.Max, 0.01)
	require.EqualValues(t, 3, total.failures[release][noQuorum].latencies.TotalCount())
	require.Contains(t, total.failures[release][noQuorum].example, "caller 0")
	require.EqualValues(t, 15, total.locks.Load())
}

func TestKeysAreSharedOnlyWhereTheyAreFewerThanCallers(t *testing.T) {
	require.Equal(t, [][]string{{"p:0"}, {"p:1"}, {"p:2"}}, assignKeys("p", 3, 3))
	require.Equal(t, [][]string{{"p:0", "p:2", "p:4"}, {"p:1", "p:3"}}, assignKeys("p", 5, 2))
	require.Equal(t, [][]string{{"p:0"}, {"p:1"}, {"p:0"}}, assignKeys("p", 2, 3))
}
