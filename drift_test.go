package redlock

import (
	"context"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

var beginning = time.Now()

// after is the moment at which so much time has passed since the beginning.
func after(d time.Duration) clock.Instant { return afterSleep(d, 0) }

// afterSleep is the same on a machine that was suspended meanwhile, which its monotonic clock has not seen.
func afterSleep(monotonic, slept time.Duration) clock.Instant {
	return clock.At(beginning.Add(monotonic), slept)
}

// anyTime draws a reading within two years of the beginning, often near it, with or without a suspension.
func anyTime(t *rapid.T, name string) clock.Instant {
	near := rapid.Int64Range(-int64(time.Minute), int64(time.Minute))
	far := rapid.Int64Range(-int64(2*maxTTL), int64(2*maxTTL))
	monotonic := rapid.OneOf(near, far).Draw(t, name+" monotonic")
	slept := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(maxTTL))).Draw(t, name+" slept")
	return afterSleep(time.Duration(monotonic), time.Duration(slept))
}

func anyTTL(t *rapid.T) time.Duration {
	return time.Duration(rapid.OneOf(
		rapid.Int64Range(int64(minTTL), int64(time.Minute)),
		rapid.Int64Range(int64(minTTL), int64(maxTTL)),
	).Draw(t, "ttl"))
}

func anyDrift(t *rapid.T) drift {
	return drift{
		factor:   rapid.OneOf(rapid.Just(0.01), rapid.Float64Range(0.01, 1)).Filter(func(f float64) bool { return f < 1 }).Draw(t, "factor"),
		constant: time.Duration(rapid.Int64Range(int64(2*time.Millisecond), int64(time.Hour)).Draw(t, "constant")),
		step:     time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "step")),
	}
}

// A lock ends by Over and tells its validity by Left: a holder must not learn two truths.
func TestAnEndIsOverExactlyWhenNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, end := anyTime(t, "now"), anyTime(t, "end")
		require.Equal(t, end.Left(now) <= 0, end.Over(now))
	})
}

// A lock whose clock is set by hand, over nodes without workers, so that nothing is sent.
func lockOnHandSetClock(now *clock.Instant, ttl time.Duration) *Lock {
	l := &Locker{
		panel: panel{quorum: majority(3), observer: &observer{}, clock: func() clock.Instant { return *now }},
		cfg:   defaultConfig(), held: make(map[*Lock]struct{}),
	}
	for range 3 {
		l.nodes = append(l.nodes, newNode("a:1", nil, l.cfg.nodeTimeout, l.clock))
	}
	k := l.newLock(request{keys: []string{"orders"}, ttl: ttl, acquireConfig: acquireConfig{owner: "me"}}, clock.Instant{})
	k.until = l.cfg.drift.until(*now, ttl)
	k.start(*now)
	k.timer.Stop() // time passes by hand alone
	return k
}

func TestALockEndsThoughTheMachineSleepsThroughItsEnd(t *testing.T) {
	for _, monotonic := range []time.Duration{time.Second, 2 * time.Hour} {
		now := after(0)
		k := lockOnHandSetClock(&now, time.Hour)
		require.NoError(t, k.Err())
		now = afterSleep(monotonic, 2*time.Hour-monotonic)
		require.Zero(t, k.Validity())
		require.ErrorIs(t, k.Err(), ErrLost)
		_, other, err := k.tryRenewal(time.Minute)
		require.ErrorIs(t, err, ErrLost)
		require.Nil(t, other)
	}
}

func TestAFailedRenewalNeverLengthensUntil(t *testing.T) {
	now := after(0)
	k := lockOnHandSetClock(&now, 10*time.Second)
	now = after(5 * time.Second)
	validity := k.Validity()
	k.mu.Lock()
	r := k.newRenewal(now, 10*time.Second, k.renewedByHand)
	r.verdict, r.tally.failed = lost, 3
	k.renewedByHand(r)()
	k.mu.Unlock()
	require.LessOrEqual(t, k.Validity(), validity)
}

// exactDrift is factor × ttl + constant + step in rational numbers.
func exactDrift(d drift, ttl time.Duration) *big.Rat {
	product := new(big.Rat).SetFloat64(d.factor)
	product.Mul(product, new(big.Rat).SetInt64(int64(ttl)))
	return product.Add(product, new(big.Rat).SetInt64(int64(d.constant+d.step)))
}

// grain is what a float64 of that size cannot tell apart: far below a nanosecond for leases
// of less than a month, a few of them for a year.
func grain(ttl time.Duration) *big.Rat { return big.NewRat(int64(ttl), 1<<52) }

func checkLease(t require.TestingT, d drift, ttl time.Duration, start, now clock.Instant) {
	validity := d.until(start, ttl).Left(now)
	elapsed := now.Since(start)

	exact := new(big.Rat).SetInt64(int64(ttl - elapsed))
	exact.Sub(exact, exactDrift(d, ttl))
	over := new(big.Rat).SetInt64(int64(validity))
	over.Sub(over, exact)
	require.LessOrEqual(t, over.Cmp(grain(ttl)), 0, "validity %v is %v ns above ttl − elapsed − drift", validity, over.FloatString(3))
	least := new(big.Rat).Add(big.NewRat(1, 1), grain(ttl))
	require.LessOrEqual(t, new(big.Rat).Neg(over).Cmp(least), 0, "validity %v is %v ns below ttl − elapsed − drift", validity, over.FloatString(3))
}

func TestValidityNeverExceedsTTLMinusElapsedMinusDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkLease(t, anyDrift(t), anyTTL(t), anyTime(t, "start"), anyTime(t, "now"))
	})
}

func TestValidityOfTheDefaultsIsThatOfTheDescription(t *testing.T) {
	d := defaultConfig().drift
	require.Equal(t, clockStep, d.step)
	d.step = 0
	start := after(0)
	now := after(30 * time.Millisecond)
	require.Equal(t, 10*time.Second-30*time.Millisecond-102*time.Millisecond, d.until(start, 10*time.Second).Left(now))
	require.Equal(t, 102*time.Millisecond, d.allowance(10*time.Second))
	require.Equal(t, 2100*time.Microsecond, d.allowance(10*time.Millisecond))
}

func FuzzLease(f *testing.F) {
	f.Add(int64(10*time.Second), 0.01, int64(2*time.Millisecond), int64(30*time.Millisecond), int64(30*time.Millisecond))
	f.Add(int64(minTTL), 0.5, int64(2*time.Millisecond), int64(0), int64(time.Hour))
	f.Add(int64(maxTTL), 0.999999, int64(2*time.Millisecond), int64(5*time.Second), -int64(time.Hour))
	f.Add(int64(-1), math.NaN(), int64(0), int64(math.MinInt64), int64(math.MaxInt64))
	f.Add(int64(10*time.Second)+999_999, math.Inf(1), int64(math.MaxInt64), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, ttl int64, factor float64, constant, monotonic, slept int64) {
		c, err := newConfig([]Option{WithDrift(factor, time.Duration(constant))})
		if err != nil {
			return
		}
		held, err := c.checkTTL(time.Duration(ttl))
		if err != nil {
			return
		}
		require.LessOrEqual(t, held, time.Duration(ttl))
		start := after(0)
		full := c.drift.until(start, held).Left(start)
		require.Positive(t, full, "an accepted ttl leaves something to hold")
		require.Less(t, full, held)
		const years = int64(2 * maxTTL)
		checkLease(t, c.drift, held, start, afterSleep(time.Duration(monotonic%years), time.Duration(max(0, slept%years))))
	})
}

func TestTheDriftAllowanceIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		factor float64
		ttl    time.Duration
		want   time.Duration
	}{
		{0.01, 10_000_000, 100_000},
		{0.01, 10_000_001, 100_001},
		{0.01, 10_000_099, 100_001},
		{0.01, 10_000_100, 100_001},
		{0.5, 10_000_001, 5_000_001},
	} {
		require.Equal(t, c.want, drift{factor: c.factor}.allowance(c.ttl), "%v of %d ns", c.factor, c.ttl)
	}
}

func TestTheDriftAllowanceGrowsWithTheTTLAndSoDoesWhatItLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDrift(t)
		a, b := wholeMillis(anyTTL(t)), wholeMillis(anyTTL(t))
		a, b = min(a, b), max(a, b)
		require.LessOrEqual(t, d.allowance(a), d.allowance(b))
		require.GreaterOrEqual(t, d.allowance(a), d.constant)
		const rounding = 8 * time.Nanosecond // of a float64 near maxTTL
		require.LessOrEqual(t, a-d.allowance(a), b-d.allowance(b)+rounding)
	})
}

func TestWholeMillisNeverRoundsUpAndLosesLessThanOne(t *testing.T) {
	require.Equal(t, 10*time.Millisecond, wholeMillis(10*time.Millisecond))
	require.Equal(t, 10*time.Millisecond, wholeMillis(10*time.Millisecond+999_999))
	rapid.Check(t, func(t *rapid.T) {
		ttl := anyTTL(t)
		whole := wholeMillis(ttl)
		require.Zero(t, whole%time.Millisecond)
		require.Equal(t, ttl.Milliseconds(), whole.Milliseconds())
		require.Less(t, ttl-whole, time.Millisecond)
		require.GreaterOrEqual(t, ttl, whole)
	})
}

func TestARoundNeverWaitsLongerThanTheNodeTimeoutOrAQuarterOfTheTTL(t *testing.T) {
	const timeout = 200 * time.Millisecond
	require.Equal(t, timeout, nodeTimeoutFor(timeout, 10*time.Second))
	require.Equal(t, timeout, nodeTimeoutFor(timeout, 800*time.Millisecond))
	require.Equal(t, 199*time.Millisecond, nodeTimeoutFor(timeout, 796*time.Millisecond))
	require.Equal(t, 2500*time.Microsecond, nodeTimeoutFor(timeout, minTTL))
	require.Positive(t, nodeTimeoutFor(time.Millisecond, minTTL))
}

// checkBackoff compares with random × min(limit, base × 2ⁿ) in whole and rational numbers.
func checkBackoff(t require.TestingT, base, limit time.Duration, n int, random float64) {
	ceiling := big.NewInt(int64(limit))
	if n < 63 {
		if grown := new(big.Int).Lsh(big.NewInt(int64(base)), uint(n)); grown.Cmp(ceiling) < 0 {
			ceiling = grown
		}
	}
	delay := backoff(base, limit, n, random)
	require.GreaterOrEqual(t, delay, time.Duration(0))
	require.Less(t, int64(delay), ceiling.Int64(), "retry %d of base %v, max %v", n, base, limit)

	exact := new(big.Rat).SetFloat64(random)
	exact.Mul(exact, new(big.Rat).SetInt(ceiling))
	short := exact.Sub(exact, new(big.Rat).SetInt64(int64(delay)))
	tolerance := new(big.Rat).Add(big.NewRat(1, 1), grain(limit))
	require.LessOrEqual(t, short.Abs(short).Cmp(tolerance), 0, "retry %d of base %v, max %v: %v for %v", n, base, limit, delay, random)
}

func TestBackoffIsARandomPartOfTheDoubledBaseWithinTheLimit(t *testing.T) {
	almostOne := math.Nextafter(1, 0)
	for n, want := range []time.Duration{50, 100, 200, 400, 500, 500, 500} {
		want *= time.Millisecond
		require.InDelta(t, want, backoff(50*time.Millisecond, 500*time.Millisecond, n, almostOne), 1, "retry %d", n)
		require.InDelta(t, want/2, backoff(50*time.Millisecond, 500*time.Millisecond, n, 0.5), 1, "retry %d", n)
		require.Zero(t, backoff(50*time.Millisecond, 500*time.Millisecond, n, 0))
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, (10*time.Minute).Milliseconds()).Draw(t, "limit ms")
		base := rapid.Int64Range(1, limit).Draw(t, "base ms")
		n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntMin(0)).Draw(t, "n")
		random := rapid.OneOf(rapid.Just(almostOne), rapid.Float64Range(0, almostOne)).Draw(t, "random")
		checkBackoff(t, time.Duration(base)*time.Millisecond, time.Duration(limit)*time.Millisecond, n, random)
	})
}

func TestBackoffOfAnySettingsNeverOverflows(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 62, 63, 64, 65, 1 << 20, math.MaxInt} {
		for _, limit := range []time.Duration{time.Millisecond, time.Hour, maxTTL} {
			delay := backoff(time.Millisecond, limit, n, math.Nextafter(1, 0))
			require.GreaterOrEqual(t, delay, time.Duration(0))
			require.Less(t, delay, limit)
		}
	}
}

func TestBackoffOfAnySettingsNeverReachesTheDoubledBase(t *testing.T) {
	checkBackoff(t, 1_000_001, 2_000_003, 1, math.Nextafter(1, 0))
	checkBackoff(t, time.Millisecond, maxTTL, 32, math.Nextafter(1, 0))
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(int64(time.Millisecond), int64(maxTTL)).Draw(t, "limit")
		base := rapid.Int64Range(int64(time.Millisecond), limit).Draw(t, "base")
		n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntMin(0)).Draw(t, "n")
		checkBackoff(t, time.Duration(base), time.Duration(limit), n, rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random"))
	})
}

func FuzzBackoff(f *testing.F) {
	f.Add(int64(50*time.Millisecond), int64(500*time.Millisecond), 3, 0.5)
	f.Add(int64(time.Millisecond), int64(time.Millisecond), math.MaxInt, math.Nextafter(1, 0))
	f.Add(int64(time.Millisecond), int64(maxTTL), 32, math.Nextafter(1, 0))
	f.Add(int64(1_000_001), int64(2_000_003), 1, math.Nextafter(1, 0))
	f.Fuzz(func(t *testing.T, base, limit int64, n int, random float64) {
		_, err := newConfig([]Option{WithBackoff(time.Duration(base), time.Duration(limit))})
		if err != nil || n < 0 || !(random >= 0 && random < 1) {
			return
		}
		delay := backoff(time.Duration(base), time.Duration(limit), n, random)
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, time.Duration(limit))
		checkBackoff(t, time.Duration(base), time.Duration(limit), n, random)
	})
}

// waited is what became of one bounded wait.
type waited struct {
	attempts int           // after the first
	last     time.Duration // when the last of them was, from the beginning
	unused   time.Duration // what was left when it was over
	rests    int           // delays longer than what was left, shortened to fit
}

// playOut runs p until it is over; every attempt takes as long as took says, and wants the delay that
// wanted gives.
func playOut(t require.TestingT, p *pace, took, wanted func() time.Duration, random func() float64) (w waited) {
	now := after(0)
	for {
		now = now.Add(took())
		left := max(0, p.end.Left(now))
		full := wanted()
		delay, over := p.fit(full, now, random())
		if over {
			require.Equal(t, left+p.slack, delay, "what is left at the end is waited for")
			w.unused = left
			again, stillOver := p.fit(wanted(), now.Add(delay), random())
			require.True(t, stillOver, "over once is over for good")
			require.Equal(t, p.slack, again)
			return w
		}
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, left, "an attempt after the end")
		if delay != full {
			w.rests++
		}
		now = now.Add(delay)
		w.attempts++
		w.last = now.Since(after(0))
		require.Less(t, w.attempts, 1_000_000, "no end")
	}
}

func TestEveryDelayOfAPaceEndsWithinItsBoundWithOneLastAttemptBeforeItIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, least, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(least*int64(time.Millisecond), most*int64(time.Millisecond)).Draw(t, name))
		}
		p := &pace{bounded: true}
		wait := ms("wait", 1, 1500)
		p.end = after(wait)
		p.slack = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "slack")
		took := func() time.Duration { return ms("took", 1, 50) }
		random := func() float64 { return rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random") }

		wanted := func() time.Duration { return ms("wanted", 0, 1000) }

		w := playOut(t, p, took, wanted, random)
		require.LessOrEqual(t, w.rests, 1, "what is left is drawn from only once")
		if w.attempts > 0 {
			require.Less(t, w.last, wait)
		}
		if w.unused > 0 {
			require.Equal(t, 1, w.rests, "gave up with time left and without a last attempt")
		}
	})
}

func TestAPaceWhoseFirstDelayIsTooLongStillTriesOnceMore(t *testing.T) {
	p := &pace{bounded: true, end: after(100 * time.Millisecond)}
	delay, over := p.fit(time.Second, after(0), 0.53)
	require.False(t, over)
	require.Equal(t, 53*time.Millisecond, delay, "a random moment of the 100 ms that are left")
	delay, over = p.fit(time.Second, after(60*time.Millisecond), 0.5)
	require.True(t, over)
	require.Equal(t, 40*time.Millisecond, delay)
}

func TestAPaceIsOverAtOnceWhenNothingIsLeft(t *testing.T) {
	for _, now := range []clock.Instant{
		after(time.Second),
		after(2 * time.Second),
		afterSleep(time.Millisecond, time.Hour), // suspended meanwhile
	} {
		p := &pace{bounded: true, end: after(time.Second), slack: time.Minute}
		delay, over := p.fit(time.Millisecond, now, 0.5)
		require.True(t, over)
		require.Equal(t, time.Minute, delay)
	}
}

func TestAnUnboundedPaceIsNeverOver(t *testing.T) {
	delay, over := new(pace).fit(time.Minute, after(time.Hour), 0.5)
	require.False(t, over)
	require.Equal(t, time.Minute, delay)
}

func TestTheWaitIsBoundedByTheEarlierOfCtxAndWait(t *testing.T) {
	const none = time.Duration(-1)
	for _, c := range []struct {
		name                     string
		limit, deadline, perCall time.Duration
		want                     time.Duration
		byCtx                    bool
	}{
		{"nothing said", 750 * time.Millisecond, none, none, 750 * time.Millisecond, false},
		{"deadline alone overrides the limit", 750 * time.Millisecond, 10 * time.Second, none, 10 * time.Second, true},
		{"deadline sooner than the limit", 750 * time.Millisecond, time.Millisecond, none, time.Millisecond, true},
		{"Wait overrides the limit", 750 * time.Millisecond, none, 3 * time.Second, 3 * time.Second, false},
		{"Wait before the deadline", 750 * time.Millisecond, 10 * time.Second, 3 * time.Second, 3 * time.Second, false},
		{"Wait after the deadline", 750 * time.Millisecond, 10 * time.Second, 30 * time.Second, 10 * time.Second, true},
		{"Wait(0) is no limit", 750 * time.Millisecond, none, 0, none, false},
		{"Wait(0) beside a deadline", 750 * time.Millisecond, 10 * time.Second, 0, 10 * time.Second, true},
		{"WithWait(0) is no limit", 0, none, none, none, false},
		{"WithWait(0) beside Wait", 0, none, time.Second, time.Second, false},
		{"WithWait(0) beside a deadline", 0, time.Second, none, time.Second, true},
		{"deadline passed", 750 * time.Millisecond, -time.Minute, none, -time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := newConfig([]Option{WithWait(c.limit)})
			require.NoError(t, err)
			l := &Locker{cfg: cfg}
			begin := after(0)
			ctx := context.Background()
			if c.deadline != none {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, time.Now().Add(c.deadline))
				defer cancel()
			}
			var q request
			if c.perCall != none {
				q.wait, q.waitSet = c.perCall, true
			}
			p := l.newPace(ctx, q, begin)
			require.Equal(t, c.want != none, p.bounded)
			if p.bounded {
				require.InDelta(t, c.want.Seconds(), p.end.Left(begin).Seconds(), 0.1)
			}
			require.Equal(t, c.byCtx, p.slack > 0, "only ctx may still end the last sleep")
		})
	}
}
