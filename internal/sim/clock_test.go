package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASuspendedMachineCountsWhatItsClockMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{begin: time.Now()}
		before, today := m.Now(), m.Today()
		m.suspend()
		time.Sleep(time.Minute)
		m.set(-time.Hour)
		during := m.Now()
		m.resume()
		time.Sleep(time.Second)
		require.Equal(t, time.Minute, during.Since(before))
		require.Zero(t, during.Ago(before))
		require.Equal(t, time.Minute+time.Second, m.Now().Since(before))
		require.Equal(t, time.Second, m.Now().Ago(before))
		require.Equal(t, time.Minute+time.Second-time.Hour, m.Today().Sub(today))
	})
}

// TestRatesStayWithinTheAllowance looks at every pair of clocks that plans make.
func TestRatesStayWithinTheAllowance(t *testing.T) {
	widest := 0
	for seed := range uint64(2000) {
		p := newPlan(seed)
		widest = min(widest, p.lag())
		for _, node := range p.rates {
			for _, locker := range p.lags {
				ratio := float64(1_000_000+node) / float64(1_000_000+locker)
				require.InDelta(t, 1, ratio, 0.010_002, "seed %d: %v %v", seed, p.rates, p.lags)
				require.LessOrEqual(t, locker, 0)
			}
		}
	}
	require.Equal(t, -maxLag, widest)
}

func TestClocksOfLongRunsDoNotOverflow(t *testing.T) {
	year := 365 * 24 * time.Hour
	require.Equal(t, year+year/100, atRate(year, 10_000))
	require.Equal(t, year-year/100, atRate(year, -10_000))
	require.InDelta(t, time.Second*100/98, stretched(time.Second, -20_000), 200)
}
