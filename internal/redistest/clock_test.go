package redistest

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ahead returns how far the server's wall clock is ahead of ours, by the quickest of a few answers.
func ahead(t *testing.T, c *redis.Client) (lead time.Duration) {
	quickest := time.Hour
	for range 5 {
		begin := time.Now()
		shown, err := c.Time(t.Context()).Result()
		require.NoError(t, err)
		if took := time.Since(begin); took < quickest {
			quickest = took
			lead = shown.Sub(begin.Add(took / 2))
		}
	}
	return lead
}

// tolerance is more than a reading of the server's clock is wrong by, on a busy machine too.
const tolerance = 60 * time.Millisecond

func TestRateOfTheClockShortensTheLifeOfKeys(t *testing.T) {
	ctx := t.Context()
	s := SkewableForTest(t, 1)[0]
	c := client(t, s)
	require.NoError(t, s.SetClock(0, 10))
	begin := time.Now()
	require.NoError(t, c.Set(ctx, "k", 1, 2*time.Second).Err())
	eventually(t, func() bool { return c.Exists(ctx, "k").Val() == 0 }, "the key expires")
	require.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond)
	require.Less(t, time.Since(begin), time.Second)
	require.NoError(t, s.SetClock(0, 0.01))
	require.NoError(t, c.Set(ctx, "k", 1, 20*time.Millisecond).Err())
	time.Sleep(100 * time.Millisecond)
	require.EqualValues(t, 1, c.Exists(ctx, "k").Val(), "a slow clock lets it live")
}

func TestClockGoesOnFromWhatItShowsWhenTheRateChanges(t *testing.T) {
	s := SkewableForTest(t, 1)[0]
	c := client(t, s)
	require.InDelta(t, 0, ahead(t, c), float64(tolerance))
	require.NoError(t, s.SetClock(0, 11))
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, s.SetClock(0, 1))
	won := ahead(t, c)
	require.Greater(t, won, 500*time.Millisecond, "ten times the 50 ms, and more on a busy machine")
	time.Sleep(20 * time.Millisecond)
	require.InDelta(t, won, ahead(t, c), float64(tolerance), "a true rate wins no more, and loses nothing")
}

func TestOffsetJumpsTheWallClockAloneAndLastsOverARestart(t *testing.T) {
	ctx := t.Context()
	s := SkewableForTest(t, 1)[0]
	c := client(t, s)
	require.NoError(t, c.Set(ctx, "k", 1, time.Minute).Err())
	require.NoError(t, s.SetClock(time.Hour, 1))
	require.InDelta(t, time.Hour, ahead(t, c), float64(tolerance))
	require.Zero(t, c.Exists(ctx, "k").Val(), "expired by the jump")

	require.NoError(t, s.SetClock(-time.Hour, 1))
	require.InDelta(t, -time.Hour, ahead(t, c), float64(tolerance))
	require.NoError(t, c.Set(ctx, "k", 1, time.Millisecond).Err())
	// Nobody touches the key: what removes it is a timer of the server's, which goes by the monotonic clock.
	eventually(t, func() bool { return c.DBSize(ctx).Val() == 0 }, "timers go on when the wall clock jumps back")

	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart())
	require.InDelta(t, -time.Hour, ahead(t, client(t, s)), float64(tolerance))
	require.NoError(t, s.SetClock(0, 1))
	require.InDelta(t, 0, ahead(t, client(t, s)), float64(tolerance))
}

func TestImpossibleClocksAreRefused(t *testing.T) {
	s := SkewableForTest(t, 1)[0]
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), maxRate + 1} {
		require.ErrorContains(t, s.SetClock(0, rate), "rate")
	}
	require.ErrorContains(t, s.SetClock(math.MinInt64, 1), "offset")
	require.NoError(t, s.SetClock(maxOffset, maxRate))
	require.NoError(t, s.Stop())
	require.ErrorIs(t, s.SetClock(0, 1), errStopped)
	require.ErrorContains(t, ForTest(t, 1)[0].SetClock(0, 1), "StartSkewable")
}
