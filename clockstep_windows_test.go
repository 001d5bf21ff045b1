package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var usualStep = clockStep

// The tests' figures are those of virtual time, and of all systems.
func init() { clockStep = 0 }

func TestTheStepOfTheClockIsTakenOffEachValidity(t *testing.T) {
	clockStep = usualStep
	defer func() { clockStep = 0 }()
	c, err := newConfig([]Option{WithDrift(0.02, time.Second)})
	require.NoError(t, err)
	require.Equal(t, time.Second+20*time.Millisecond+15625*time.Microsecond, c.drift.allowance(time.Second))
}
