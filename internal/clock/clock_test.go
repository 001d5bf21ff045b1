package clock

import (
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSinceCountsWhatTheMonotonicClockMissed(t *testing.T) {
	begin := time.Now()
	u := At(begin, time.Hour)
	later := At(begin.Add(time.Second), time.Hour+8*time.Second)
	require.Equal(t, 9*time.Second, later.Since(u))
	require.Equal(t, time.Second, later.Ago(u), "what is sure")
	require.Equal(t, -4*time.Second, u.Add(5*time.Second).Left(later))
	require.True(t, u.Add(5*time.Second).Over(later))
	require.False(t, u.Add(10*time.Second).Over(later))
	require.True(t, u.Add(9*time.Second).Over(later), "reached is over")
}

func TestSinceSaturates(t *testing.T) {
	now := At(time.Now(), time.Hour)
	require.Equal(t, time.Duration(math.MaxInt64), now.Since(Instant{}))
	require.Equal(t, time.Duration(math.MinInt64), Instant{}.Since(now))
	require.Equal(t, -time.Duration(math.MaxInt64), Instant{}.Left(now))
	require.Equal(t, time.Duration(math.MaxInt64), now.Left(Instant{}))
	require.True(t, Instant{}.Over(now))
}

func TestEarlierIsTheOneThatIsReachedFirst(t *testing.T) {
	begin := time.Now()
	awake, slept := At(begin.Add(5*time.Second), 0), At(begin, 6*time.Second)
	require.Equal(t, awake, Earlier(awake, slept))
	require.Equal(t, awake, Earlier(slept, awake))
}

func TestAStepOfTheWallClockMakesTheSensorLook(t *testing.T) {
	slept, looks := 40*time.Second, 0
	s := newSensor(func(time.Duration, time.Duration) time.Duration { looks++; return slept })
	require.Equal(t, 1, looks)
	require.Equal(t, 40*time.Second, s.missed(s.base.Add(time.Minute)))
	require.Equal(t, 1, looks, "nothing has moved")

	// The wall clock is set back by 10 s, then the machine sleeps for 8 s: it is 2 s behind.
	s.ahead.Store(int64(2 * time.Second))
	slept += 8 * time.Second
	require.Equal(t, 48*time.Second, s.missed(s.base.Add(time.Minute)))
	require.Equal(t, 2, looks)
	require.Equal(t, 48*time.Second, s.missed(s.base.Add(time.Minute)))
	require.Equal(t, 2, looks)

	// It is set forward: the machine has not slept.
	s.ahead.Store(int64(-time.Hour))
	require.Equal(t, 48*time.Second, s.missed(s.base.Add(time.Minute)))
	require.Equal(t, 3, looks)

	slept = 0 // nonsense
	s.ahead.Store(int64(time.Hour))
	require.Equal(t, 48*time.Second, s.missed(s.base.Add(time.Minute)), "it never shrinks")
}

func TestElsewhereAWallClockThatMovesForwardIsASuspension(t *testing.T) {
	require.Equal(t, 5*time.Second, stepOfWallClock(2*time.Second, 3*time.Second))
	require.Equal(t, 2*time.Second, stepOfWallClock(2*time.Second, -time.Hour))
}

func TestTheClockIsVirtualInABubble(t *testing.T) {
	outside := Now()
	synctest.Test(t, func(t *testing.T) {
		begin := Now()
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, Now().Since(begin))
		require.Equal(t, time.Hour, Now().Ago(begin))
	})
	require.Less(t, Now().Since(outside), time.Minute)
}

func TestTheClockGoesOnWithTheMonotonicOne(t *testing.T) {
	begin, mono := Now(), time.Now()
	time.Sleep(20 * time.Millisecond)
	elapsed, want := Now().Since(begin), time.Since(mono)
	require.InDelta(t, want.Seconds(), elapsed.Seconds(), 0.005)
	if runtime.GOOS == "linux" {
		require.Less(t, sleepOfMachineNow()-begin.slept, 2*grain)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
