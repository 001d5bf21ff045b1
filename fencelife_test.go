package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheLifeOfNumbersIsBounded(t *testing.T) {
	for _, d := range []time.Duration{0, -1, time.Second - 1, maxTTL + 1} {
		_, err := newConfig([]Option{WithFencing(), WithFenceLife(d)})
		requireNames(t, err, "WithFenceLife", d.String(), "1s … 8784h0m0s")
		_, err = newConfig([]Option{WithFenceLife(d)})
		requireNames(t, err, "WithFenceLife", "without WithFencing")
	}
	for _, d := range []time.Duration{time.Second, maxTTL} {
		c, err := newConfig([]Option{WithFenceLife(d), WithFencing()})
		require.NoError(t, err)
		require.Equal(t, d, c.fenceLife)
	}
}

// numbersLive checks how long all nodes will keep the number of orders.
func (w *world) numbersLive(life time.Duration) {
	w.t.Helper()
	time.Sleep(time.Millisecond)
	w.all(func(f *fakeNode) {
		require.InDelta(w.t, life, f.ttl(fenceName("orders")), float64(100*time.Millisecond), "%v", f.ttl(fenceName("orders")))
	})
}

func TestNumbersLiveAsLongAsTheOptionSaysButNoShorterThanTheLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing(), WithFenceLife(time.Hour))
		k := w.hold(l, "orders", time.Minute)
		w.numbersLive(time.Hour)
		require.NoError(t, k.Renew(t.Context(), 3*time.Hour))
		w.numbersLive(3 * time.Hour)
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Millisecond)
		k = w.hold(l, "orders", 2*time.Hour)
		w.numbersLive(2 * time.Hour)
		require.NoError(t, k.Release(t.Context()))
	})
}

// One client's clock is ten days ahead, once.
func TestTheNumberOfAClockThatWasAheadIsKeptUntilTheOthersHaveCaughtUp(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		fast, l := w.open(WithFencing()), w.open(WithFencing())
		fast.today = func() time.Time { return time.Now().Add(10 * day) }
		last := int64(0)
		grant := func(l *Locker) {
			t.Helper()
			k := w.hold(l, "orders", time.Second)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			require.NoError(t, k.Release(t.Context()))
			time.Sleep(time.Millisecond)
		}
		grant(fast)
		w.numbersLive(17 * day)
		grant(l)
		w.numbersLive(17 * day)
		time.Sleep(7*day + time.Second)
		grant(l)
		w.numbersLive(10*day - time.Second)
		time.Sleep(10*day - 2*time.Second)
		grant(l)
		w.numbersLive(7 * day)
		time.Sleep(7*day + time.Second)
		w.all(func(f *fakeNode) { require.Empty(t, f.value(fenceName("orders")), "it is kept no longer than needed") })
		grant(l)
	})
}

func TestEachRenewalKeepsTheNumberAlive(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		k := w.hold(l, "orders", 6*day)
		for range 5 {
			time.Sleep(4 * day)
			require.NoError(t, k.Renew(t.Context(), 6*day))
			w.numbersLive(7 * day)
			w.all(func(f *fakeNode) { require.Equal(t, k.Fence(), f.number("orders")) })
		}
		fast := w.open(WithFencing())
		fast.today = func() time.Time { return time.Now().Add(100 * day) }
		require.NoError(t, k.Release(t.Context()))
		k = w.hold(fast, "orders", 6*day)
		time.Sleep(day)
		require.NoError(t, k.Renew(t.Context(), 6*day))
		w.numbersLive(106 * day)
		require.NoError(t, k.Release(t.Context()))
		k = w.hold(fast, "orders", 6*day)
		w.nodes[0].miniredis().Del(fenceName("orders"))
		require.NoError(t, k.Renew(t.Context(), 6*day))
		w.numbersLive(107 * day)
		_, err := l.Resume(t.Context(), "orders", k.Token(), 6*day)
		require.NoError(t, err)
		w.numbersLive(107 * day)
	})
}

func TestNumbersLiveLongWhereTheNodesDoNotTellTheTime(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.all(func(f *fakeNode) { f.vetoing(forbidding("TIME")) })
		l := w.open(WithFencing())
		k := w.hold(l, "orders", time.Minute)
		w.numbersLive(373 * day)
		time.Sleep(30 * time.Second)
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		w.numbersLive(373 * day)
	})
}

// What else stands in the place of a number gives way to a number, unless it is too large to count on from. Here Lua is
// not the one of a server: TestRealServersCountOnFromAnyValueButTheLargest has more values.
func TestOnlyValuesThatCannotBeCountedOnFromFailAVote(t *testing.T) {
	for value, full := range map[string]bool{
		"": false, "abc": false, "nan": false, "-nan": false, "1.5": false, "-7": false, "0x10": false, " 5 ": false, "-inf": false, "-1e300": false,
		"9007199254740991": true, "9007199254740992": true, "9007199254740993": true, "1.0e300": true,
		"2000000000000000.5": false, "9007199254740000": false,
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open(WithFencing())
			w.all(func(f *fakeNode) { require.NoError(t, f.miniredis().Set(fenceName("orders"), value)) })
			last := ahead(-time.Second)
			for range 3 {
				k, err := l.TryAcquire(t.Context(), "orders", time.Minute)
				if full {
					require.ErrorIs(t, err, ErrNoQuorum, "%q", value)
					require.ErrorContains(t, err, "2^53")
					require.ErrorContains(t, err, "set this machine's clock if it is wrong; or else delete {key}:redlock-fence")
					time.Sleep(time.Second)
					w.keyless("orders")
					require.Equal(t, 3, w.count(fenceName("orders"), value), "it is left alone")
					continue
				}
				require.NoError(t, err, "%q", value)
				require.Greater(t, k.Fence(), last, "%q", value)
				last = k.Fence()
				require.NoError(t, k.Renew(t.Context(), time.Minute))
				time.Sleep(time.Millisecond)
				require.Equal(t, 3, w.count(fenceName("orders"), fmt.Sprint(last)), "%q", value)
				require.NoError(t, k.Release(t.Context()))
			}
		})
	}
}

func TestTheLargestNumberIsGivenAndNoneAfterIt(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		w.all(func(f *fakeNode) { f.setNumber(t, "orders", maxFence-1) })
		k := w.hold(l, "orders", time.Minute)
		require.Equal(t, int64(maxFence), k.Fence())
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		time.Sleep(time.Millisecond)
		again, err := l.Resume(t.Context(), "orders", k.Token(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, k.Fence(), again.Fence())
		require.NoError(t, again.Release(t.Context()))
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.Equal(t, fmt.Sprint(int64(maxFence)), f.value(fenceName("orders")))
			require.Greater(t, f.ttl(fenceName("orders")), 200*365*day)
		}
		_, err = l.TryAcquireAll(t.Context(), []string{"others", "orders"}, time.Minute)
		require.ErrorContains(t, err, "number of key 2 would be 2^53")
	})
}

func TestAClockBeyondTheLargestNumberGetsNoLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l, plain := w.open(WithFencing()), w.open()
		k := w.hold(plain, "orders", time.Minute)
		l.today = func() time.Time { return time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }
		_, err := l.TryAcquire(t.Context(), "free", time.Minute)
		require.ErrorContains(t, err, "set this machine's clock")
		_, err = l.Resume(t.Context(), "orders", k.Token(), time.Minute)
		require.ErrorContains(t, err, "set this machine's clock")
		w.all(func(f *fakeNode) {
			require.Empty(t, f.value(fenceName("free")))
			require.Empty(t, f.value(fenceName("orders")))
		})
		l.today = func() time.Time { return time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }
		require.EqualValues(t, 1, w.hold(l, "free", time.Minute).Fence())
	})
}

func TestANumberThatIsTooLargeEndsNoLockThatIsHeld(t *testing.T) {
	for _, value := range []string{"9007199254740992", "1000000000000000000", "1.0e300"} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open(WithFencing())
			k := w.hold(l, "orders", time.Minute)
			time.Sleep(time.Millisecond)
			w.all(func(f *fakeNode) { require.NoError(t, f.miniredis().Set(fenceName("orders"), value)) })
			for range 3 {
				time.Sleep(30 * time.Second)
				require.NoError(t, k.Renew(t.Context(), time.Minute), "%q", value)
				time.Sleep(time.Millisecond)
				require.Equal(t, 3, w.count(fenceName("orders"), value), "no smaller one takes the place of %q: %q, %v", value, w.nodes[0].value(fenceName("orders")), w.nodes[0].ttl(fenceName("orders")))
			}
			_, err := l.Resume(t.Context(), "orders", k.Token(), time.Hour)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.ErrorContains(t, err, "number of key 1 is 2^53 or more")
			require.ErrorContains(t, err, "delete {key}:redlock-fence")
			w.all(func(f *fakeNode) { require.Less(t, f.ttl("orders"), time.Hour, "nothing is done") })
			require.NoError(t, k.Err())
			require.NoError(t, k.Release(t.Context()))
		})
	}
}
