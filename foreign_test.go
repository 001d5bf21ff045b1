package redlock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

func TestThePollBehindAForeignHolderFollowsTheTimeItHasHeld(t *testing.T) {
	almost := math.Nextafter(1, 0)
	for _, c := range []struct {
		seen        time.Duration
		least, most time.Duration
	}{
		{0, 10, 10}, {20, 10, 10}, {40, 10, 15}, {80, 10, 30}, {200, 25, 75}, {400, 50, 100}, {3_600_000, 50, 100}, {math.MaxInt64 / 1_000_000, 50, 100},
	} {
		require.Equal(t, c.least*time.Millisecond, foreignPoll(c.seen*time.Millisecond, 0), "%d ms", c.seen)
		require.InDelta(t, c.most*time.Millisecond, foreignPoll(c.seen*time.Millisecond, almost), 2, "%d ms", c.seen)
	}
	for hold := 10 * time.Millisecond; hold < time.Hour; hold *= 2 {
		polls, at := 0, time.Duration(0)
		for ; at < hold; polls++ {
			at += foreignPoll(at, 0.5)
		}
		require.LessOrEqual(t, at-hold, max(hold/4, foreignLeast))
		require.LessOrEqual(t, polls, 20+int(hold/foreignMost))
	}
}

func TestTheTimeOfAForeignHolderIsCountedAnewForEachToken(t *testing.T) {
	ln := &line{lines: &lines{}}
	refusal := func(holder string) *entry {
		return &entry{answered: true, answer: answer{vote: refused, holder: holder}}
	}
	begin := clock.Now()
	later := func(s int) clock.Instant { return begin.Add(time.Duration(s) * time.Second) }
	require.Zero(t, ln.strangerFor(refusal("theirs"), later(0)))
	require.Equal(t, 5*time.Second, ln.strangerFor(refusal("theirs"), later(5)))
	require.Equal(t, notForeign, ln.strangerFor(refusal("me/AAAAAAAAAAAAAAAAAAAAAA"), later(6)), "one of ours")
	require.Equal(t, notForeign, ln.strangerFor(nil, later(6)))
	require.Equal(t, notForeign, ln.strangerFor(&entry{answered: true, answer: answer{vote: granted}}, later(6)))
	require.Equal(t, 7*time.Second, ln.strangerFor(refusal("theirs"), later(7)), "other callers of the line go on counting")
	for i, other := range []string{"", "me/AAAAAAAAAAAAAAAAAAAAA", "ld6mNlGUPDhTJEvVdGTbtQ==", "me/AAAAAAAAAAAAAAAAAAAA+A", "/AAAAAAAAAAAAAAAAAAAAAA"} {
		require.Zero(t, ln.strangerFor(refusal(other), later(10+i)), other)
	}
}

// strange locks a key as another library does, without a word to anybody, and returns its release.
func (w *world) strange(key, token string, ttl time.Duration) (release func()) {
	for _, f := range w.nodes {
		require.NoError(w.t, f.miniredis().Set(key, token))
		if ttl > 0 {
			f.miniredis().SetTTL(key, ttl)
		}
	}
	return func() { w.all(func(f *fakeNode) { f.miniredis().Del(key) }) }
}

func TestAKeyThatAForeignHolderReleasesIsTakenWithinAQuarterOfItsHold(t *testing.T) {
	for _, hold := range []time.Duration{5 * time.Millisecond, 60 * time.Millisecond, 200 * time.Millisecond, 3 * time.Second} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			w.acquires(t.Context(), l, "warm", time.Second)
			for range 20 {
				release := w.strange("orders", "theirs", time.Minute)
				next := w.acquires(t.Context(), l, "orders", time.Minute, Wait(0))
				time.Sleep(hold)
				begin := time.Now()
				release()
				require.NoError(t, next.granted(t).Release(t.Context()))
				require.LessOrEqual(t, next.at.Sub(begin), min(max(foreignLeast, hold*3/8), foreignMost)+handover)
			}
		})
	}
}

func TestALongForeignHoldCostsTheGateSomeTenCommandsASecondAndTheOthersNone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.strange("orders", "theirs", time.Hour)
		for range 5 { // of one locker
			w.acquires(t.Context(), l, "orders", time.Minute, Wait(time.Minute))
		}
		time.Sleep(10 * time.Second)
		gate := w.gateOf(l, "orders")
		before := len(gate.commands("EVALSHA " + acquireScript.sha))
		others := func() (n int) {
			w.all(func(f *fakeNode) {
				if f != gate {
					n += len(f.commands("orders"))
				}
			})
			return n
		}
		asked := others()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 115, len(gate.commands("EVALSHA "+acquireScript.sha))-before, 25)
		require.Equal(t, asked, others())
	})
}

func TestAWaiterBehindOneOfOursPollsNoMoreThanItsBackOff(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Hour)
		l := w.open()
		next := w.waits(l, "orders")
		time.Sleep(5 * time.Second)
		attempts := l.Stats().Attempts
		time.Sleep(20 * time.Second) // before the list ends, which takes a wake-up with it
		require.InDelta(t, 80, l.Stats().Attempts-attempts, 20, "every 250 ms as a rule")
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		next.granted(t)
		require.Less(t, next.at.Sub(released), handover)
	})
}

func TestAForeignKeyIsTakenWhenItExpires(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.strange("orders", "theirs", 3*time.Second)
		end := time.Now().Add(3 * time.Second)
		k, err := l.Acquire(t.Context(), "orders", time.Minute, Wait(time.Minute))
		require.NoError(t, err)
		require.Less(t, time.Since(end), 5*time.Millisecond)
		require.NoError(t, k.Release(t.Context()))
	})
}

// lostAttempt draws an attempt that was lost, after whatever a node said.
func lostAttempt(t *rapid.T) *QuorumError {
	f := &QuorumError{class: rapid.SampledFrom([]error{ErrHeld, ErrNoQuorum}).Draw(t, "class")}
	f.Elapsed = time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "elapsed"))
	number := rapid.OneOf(rapid.Int64Min(-2), rapid.SampledFrom([]int64{-2, -1, 0, 1, 5, math.MaxInt64, 9_999_999_999_000}))
	a, ok := readAcquireAll([]any{
		int64(0), rapid.Int64Range(1, 3).Draw(t, "index"), number.Draw(t, "pttl"),
		rapid.SampledFrom([]string{"", "0", "17", "1764440000000000"}).Draw(t, "since"), rapid.StringN(0, 30, -1).Draw(t, "holder"),
	}, 3)
	require.True(t, ok)
	if rapid.Bool().Draw(t, "refused elsewhere") {
		a = answer{vote: granted}
	}
	f.entry = &entry{answered: rapid.Bool().Draw(t, "answered"), answer: a}
	return f
}

func checkAcquireEnds(t *rapid.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	wait := time.Duration(rapid.Int64Range(1, int64(3*time.Second)).Draw(t, "wait"))
	begin := clock.Now()
	now := begin
	slack := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "slack")
	w := &waiter{Locker: &Locker{cfg: cfg}, pace: &pace{bounded: true, end: begin.Add(wait), slack: slack}}
	ln := &line{lines: &lines{}}
	fair := rapid.Bool().Draw(t, "fair dice")
	random := func() float64 {
		if !fair {
			return 0
		}
		return rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
	}
	first, took := true, time.Duration(0)
	for attempts := 1; ; attempts++ {
		require.Less(t, now.Since(begin), wait+time.Nanosecond, "an attempt after the end")
		took = time.Duration(rapid.Int64Range(0, int64(5*time.Millisecond)).Draw(t, "took"))
		now = now.Add(took)
		f := &QuorumError{class: ErrHeld}
		if !first {
			f = lostAttempt(t)
		}
		first = false
		bit := rapid.Bool()
		delay, over := w.pause(f, bit.Draw(t, "moved"), bit.Draw(t, "hears"), ln.strangerFor(f.entry, now), now, random)
		require.GreaterOrEqual(t, delay, time.Duration(0))
		if over {
			require.LessOrEqual(t, now.Add(delay).Since(begin), wait+took+slack)
			return
		}
		now = now.Add(delay)
		require.LessOrEqual(t, attempts, 10+5*int(wait/time.Millisecond), "it spins")
	}
}

// TestAcquireEndsByItsLimitWhateverANodeAnswers is about the delays; the limit of each attempt is that of the node timeout.
func TestAcquireEndsByItsLimitWhateverANodeAnswers(t *testing.T) { rapid.Check(t, checkAcquireEnds) }

func FuzzAcquireEndsByItsLimit(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkAcquireEnds)) }
