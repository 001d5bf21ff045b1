package redlock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/clock"
)

// Instants of these tests are so long after a fixed one.
func moment(s float64) clock.Instant {
	return clock.At(time.Unix(1_000_000, 0), 0).Add(time.Duration(s * float64(time.Second)))
}

const pacerTimeout = 200 * time.Millisecond

// full returns a pacer whose window is full, with a lock that waits.
func full() *pacer {
	p := newPacer()
	for p.enter() {
	}
	p.wait(&Lock{}, moment(1))
	return &p
}

// round ends one renewal that began at start and took so long.
func (p *pacer) round(start clock.Instant, took time.Duration, won bool) {
	p.done(ending{start: start, elapsed: took, timeout: pacerTimeout, won: won, failed: !won}, start.Add(took))
}

func TestADueRenewalIsLaunchedAtOnceWhileFewAreInFlight(t *testing.T) {
	p := newPacer()
	for range firstWindow {
		require.True(t, p.enter())
	}
	require.False(t, p.enter())
	p.done(ending{}, moment(0))
	require.True(t, p.enter())
}

func TestADueRenewalDoesNotOvertakeThoseThatWait(t *testing.T) {
	p := full()
	p.round(moment(0), time.Millisecond, true)
	require.False(t, p.enter(), "there is room, but for the one that waits")
}

func TestTheLockThatEndsFirstGoesFirst(t *testing.T) {
	for range 200 {
		p := newPacer()
		var want []clock.Instant
		ends := make(map[*Lock]clock.Instant)
		for range 1 + rand.IntN(40) {
			k := &Lock{}
			ends[k] = moment(rand.Float64())
			p.wait(k, ends[k])
		}
		for k, end := range ends {
			if rand.IntN(3) == 0 {
				p.remove(k)
				p.remove(k) // does nothing
				require.Zero(t, k.queued)
			} else {
				want = append(want, end)
			}
		}
		slices.SortFunc(want, func(a, b clock.Instant) int { return int(a.Since(b)) })
		for _, end := range want {
			k, pause := p.next(moment(0))
			require.Zero(t, pause)
			require.Equal(t, end, ends[k])
			require.Zero(t, k.queued)
		}
		k, _ := p.next(moment(0))
		require.Nil(t, k)
		require.Equal(t, len(want), p.inFlight)
	}
}

func TestNothingKeepsALockAliveThatHasLeftTheQueue(t *testing.T) {
	p := newPacer()
	locks := make([]*Lock, 100)
	for i := range locks {
		locks[i] = &Lock{}
		p.wait(locks[i], moment(float64(i%7)))
	}
	for _, k := range locks[:99] {
		p.remove(k)
	}
	require.Len(t, p.queue, 1)
	for _, d := range p.queue[1:cap(p.queue)] {
		require.Nil(t, d.lock)
	}
	p.remove(locks[99])
	require.Nil(t, p.queue, "nor the memory of many that waited")
}

func TestTheWindowGrowsWhileRoundsAreQuickAndLocksWait(t *testing.T) {
	p := full()
	for i := range 400 {
		p.round(moment(float64(i)/1000), time.Millisecond, true)
		p.inFlight++
	}
	require.Equal(t, firstWindow+100, int(p.window))

	p.queue = nil
	p.round(moment(1), time.Millisecond, true)
	require.Equal(t, firstWindow+100, int(p.window), "nobody waits: it is large enough")
}

func TestSlowRoundsHalveTheWindowOncePerRoundTripAndNotBelowItsLeast(t *testing.T) {
	p := full()
	slow := pacerTimeout/4 + 1
	p.round(moment(0), time.Millisecond, false)
	p.round(moment(0), time.Millisecond, true)
	p.inFlight += 2
	for i := range 20 { // all of them began before the first of them was slow
		p.round(moment(1+float64(i)/1e6), slow, true)
		p.inFlight++
	}
	require.Equal(t, (firstWindow+1)/2, int(p.window))
	p.round(moment(2), pacerTimeout, false)
	require.Equal(t, firstWindow/4, int(p.window), "a timeout is a slow round too")
	for i := range 20 {
		p.round(moment(3+float64(i)), slow, true)
		p.inFlight++
	}
	require.Equal(t, leastWindow, int(p.window))
}

func TestARoundToDistantNodesIsNotSlow(t *testing.T) {
	p := full()
	for i := range 40 {
		p.round(moment(float64(i)), 70*time.Millisecond, true) // more than timeout/4
		p.inFlight++
	}
	require.Equal(t, firstWindow+10, int(p.window))
	p.round(moment(50), 141*time.Millisecond, true)
	require.Less(t, int(p.window), firstWindow)
	require.Equal(t, pacerTimeout*3/4, p.quick(pacerTimeout)+10*time.Millisecond)

	for i := range 40 { // the way to them has changed: the quickest round is forgotten after a while
		p.round(moment(100+float64(i)), time.Millisecond, true)
		p.inFlight++
	}
	require.Equal(t, pacerTimeout/4, p.quick(pacerTimeout))
	for i := range 40 {
		p.round(moment(200+float64(i)), 70*time.Millisecond, true)
		p.inFlight++
	}
	require.Equal(t, 140*time.Millisecond, p.quick(pacerTimeout))
}

func TestRenewalsThatFailAtOnceSayNothingOfTheLoad(t *testing.T) {
	p := full()
	for i := range 400 { // one lock of two has a key that the nodes refuse
		p.round(moment(float64(i)/1000), time.Millisecond, i%2 == 0)
		p.inFlight++
	}
	require.Equal(t, firstWindow+50, int(p.window))
	p.round(moment(1), time.Millisecond, true)
	k, pause := p.next(moment(1))
	require.NotNil(t, k)
	require.Zero(t, pause)
}

// With the nodes down each renewal fails within its launch, and is due again soon.
func TestWhileNoRenewalSucceedsTheyAreLaunchedSlowly(t *testing.T) {
	p := full()
	for i := range leastWindow {
		p.round(moment(float64(i)), 0, false)
	}
	now := moment(leastWindow - 1)
	k, pause := p.next(now)
	require.Nil(t, k)
	require.Equal(t, respite, pause)
	k, _ = p.next(now.Add(respite))
	require.NotNil(t, k)

	require.False(t, p.enter())
	p.wait(&Lock{}, moment(1))
	p.round(now, 0, false)
	p.round(now, time.Millisecond, true)
	k, pause = p.next(now)
	require.NotNil(t, k, "one succeeded")
	require.Zero(t, pause)
}

func TestRenewalsAreDueBetweenTwoFifthsAndHalfOfTheTTL(t *testing.T) {
	require.Equal(t, 5*time.Second, renewalDelay(10*time.Second, 0))
	require.Equal(t, 4*time.Second, renewalDelay(10*time.Second, 1))
	require.Equal(t, 4500*time.Millisecond, renewalDelay(10*time.Second, 0.5))
}
