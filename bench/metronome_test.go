package main

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMetronomeEnds(t *testing.T) {
	var ticks atomic.Int64
	stop, err := startMetronome(func() time.Time {
		if ticks.Add(1) == 3 {
			return time.Now().Add(time.Hour)
		}
		return time.Now().Add(-time.Millisecond) // late is at once
	})
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	stop()
	stop()
	require.LessOrEqual(t, ticks.Load(), int64(3))
}
