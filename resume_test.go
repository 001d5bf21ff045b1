package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResumeAdoptsALockThatIsHeld(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		former := w.hold(w.open(WithOwner("first:1"), WithKeyPrefix("lock:")), "orders", 10*time.Second)
		time.Sleep(5 * time.Second)
		l := w.open(WithOwner("second:2"), WithKeyPrefix("lock:"))
		begin := time.Now()
		k, err := l.Resume(t.Context(), "orders", former.Token(), 20*time.Second, AutoRenew(), MaxHold(time.Minute))
		require.NoError(t, err)
		require.Equal(t, former.Token(), k.Token())
		require.Equal(t, "first:1", k.Owner())
		require.Equal(t, "orders", k.Key())
		require.Equal(t, begin.Add(20*time.Second-202*time.Millisecond), k.Until())
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, k.Nodes())
		require.Equal(t, 1, l.Stats().Holding)
		require.InDelta(t, 20*time.Second, w.nodes[2].ttl("lock:orders"), float64(2*time.Millisecond))
		time.Sleep(30 * time.Second)
		require.NoError(t, k.Err(), "renewed")
		require.NoError(t, k.Release(t.Context()))
		w.keyless("lock:orders")
	})
}

func TestResumeNeedsAQuorumThatStillHoldsTheToken(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(w.open(), "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[0].miniredis().Del("orders")
		again, err := l.Resume(t.Context(), "orders", k.Token(), 10*time.Second)
		require.NoError(t, err, "two of three have it")
		require.Empty(t, w.nodes[0].value("orders"), "a node that lost it is healed by renewals, not by this")
		require.NoError(t, again.Renew(t.Context(), 10*time.Second))
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, w.count("orders", k.Token()))

		w.nodes[0].miniredis().Del("orders")
		w.nodes[1].miniredis().Del("orders")
		_, err = l.Resume(t.Context(), "orders", k.Token(), 10*time.Second)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorContains(t, err, "resume")
		require.NotErrorIs(t, err, ErrNotAcquired)
		time.Sleep(time.Second)
		require.Equal(t, 1, w.count("orders", k.Token()), "nothing is set, nothing deleted")
	})
}

func TestResumeOfALockThatAnotherHoldsIsALossAndTouchesNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Minute)
		for _, token := range []string{"theirs", "me/AAAAAAAAAAAAAAAAAAAAAA"} {
			_, err := l.Resume(t.Context(), "orders", token, time.Hour)
			require.ErrorIs(t, err, ErrLost)
		}
		time.Sleep(time.Second)
		require.Equal(t, 3, w.count("orders", k.Token()))
		require.LessOrEqual(t, w.nodes[0].ttl("orders"), time.Minute)
		require.NoError(t, k.Release(t.Context()))
	})
}

func TestAResumeThatFailsForOutagesLeavesTheLockToItsHolder(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		former := w.hold(w.open(), "orders", time.Minute)
		l := w.open()
		for name, fault := range map[string]func(*fakeNode){"hung": (*fakeNode).hang, "mute": (*fakeNode).mute} {
			for _, f := range w.nodes[1:] {
				fault(f)
			}
			_, err := l.Resume(t.Context(), "orders", former.Token(), time.Minute)
			require.ErrorIs(t, err, ErrNoQuorum, name)
			w.all((*fakeNode).resume)
			time.Sleep(10 * time.Second)
			require.Equal(t, 3, w.count("orders", former.Token()), "%s: what was under way deletes nothing later on", name)
			require.NoError(t, former.Renew(t.Context(), time.Minute))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Microsecond, cancel)
		_, err := l.Resume(ctx, "orders", former.Token(), time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		require.Equal(t, 3, w.count("orders", former.Token()))
		require.Zero(t, l.Stats().Holding)
		require.NoError(t, l.Close())
		_, err = l.Resume(t.Context(), "orders", former.Token(), time.Minute)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// What was closed without a release lives out its ttl: it may be somebody else's by now.
func TestTheFormerLockerDeletesNothingOfALockThatWasHandedOn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		first, l := w.open(), w.open()
		w.nodes[2].mute() // it stores the key, and does not tell
		former := w.hold(first, "orders", time.Minute)
		k, err := l.Resume(t.Context(), "orders", former.Token(), time.Minute)
		require.NoError(t, err)
		closed := underWay(first.Close)
		time.Sleep(10 * time.Millisecond)
		w.nodes[2].cut() // the outcome there is not known when the former handle has ended
		w.nodes[2].resume()
		require.NoError(t, <-closed)
		time.Sleep(3 * time.Second)
		require.Equal(t, 3, w.count("orders", k.Token()))
		require.NoError(t, k.Err())
	})
}

func TestAResumedLockIsLostLikeAnyOther(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		former := w.hold(w.open(), "orders", time.Minute)
		k, err := w.open().Resume(t.Context(), "orders", former.Token(), time.Second)
		require.NoError(t, err)
		w.all((*fakeNode).hang)
		<-k.Done()
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Zero(t, time.Since(k.Until()))
	})
}

func TestAResumedLockKeepsItsFence(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		former := w.hold(w.open(WithFencing()), "orders", time.Minute)
		time.Sleep(time.Millisecond)
		l := w.open(WithFencing())
		k, err := l.Resume(t.Context(), "orders", former.Token(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, former.Fence(), k.Fence())

		w.nodes[3].setNumber(t, "orders", former.Fence()+7) // a late grant was given more there
		k, err = l.Resume(t.Context(), "orders", former.Token(), time.Minute)
		require.NoError(t, err)
		require.GreaterOrEqual(t, k.Fence(), former.Fence())
		stored := 0
		for _, f := range w.nodes {
			if f.number("orders") >= k.Fence() {
				stored++
			}
		}
		require.GreaterOrEqual(t, stored, 3, "so that the next one is larger")

		plain := w.hold(w.open(), "plain", time.Minute)
		k, err = l.Resume(t.Context(), "plain", plain.Token(), time.Minute)
		require.NoError(t, err)
		require.Positive(t, k.Fence())
		require.NoError(t, k.Release(t.Context()))
		require.Greater(t, w.hold(l, "plain", time.Minute).Fence(), k.Fence())
	})
}

func TestBadArgumentsOfResumeAreNamedAndNothingIsSent(t *testing.T) {
	l := deafLocker(t)
	for want, call := range map[string]func() error{
		"key is empty":   func() error { _, err := l.Resume(t.Context(), "", "t", time.Second); return err },
		"token is empty": func() error { _, err := l.Resume(t.Context(), "k", "", time.Second); return err },
		"ttl":            func() error { _, err := l.Resume(t.Context(), "k", "t", 0); return err },
		"Wait":           func() error { _, err := l.Resume(t.Context(), "k", "t", time.Second, Wait(1)); return err },
		"Owner":          func() error { _, err := l.Resume(t.Context(), "k", "t", time.Second, Owner("me")); return err },
	} {
		requireNames(t, call(), want)
	}
}

func TestTheOwnerOfATokenOfThisLibrary(t *testing.T) {
	for token, owner := range map[string]string{
		"host:1/AAAAAAAAAAAAAAAAAAAA-_": "host:1", "a/b/AAAAAAAAAAAAAAAAAAAAAA": "a/b", "/AAAAAAAAAAAAAAAAAAAAAA": "",
		"host:1/short": "", "AAAAAAAAAAAAAAAAAAAAAA": "", "host:1/AAAAAAAAAAAAAAAAAAAA+=": "", "": "", "mm2VqJ8yZ0/a1b2c3d4e5f6g7h8i9": "",
	} {
		require.Equal(t, owner, ownerOf(token), token)
	}
	require.Equal(t, "me", ownerOf(newToken("me")))
}

// The lock may have been given any ttl before, and nobody tells.
func TestAReleaseOfAResumedLockIsOwedForTheLongestTTLThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		options []Option
		until   time.Duration // for so long a node that was down gets the release
	}{
		"":           {nil, 366 * 24 * time.Hour},
		"WithMaxTTL": {[]Option{WithMaxTTL(time.Hour)}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				former, l := w.open(), w.open(c.options...)
				k := w.hold(former, "orders", time.Hour)
				time.Sleep(100 * time.Millisecond)
				w.nodes[2].unreachable(true)
				_ = w.hold(l, "other", time.Minute).Release(t.Context()) // learns that the node is down
				time.Sleep(time.Second)
				require.False(t, l.Stats().Nodes[2].Up)
				resumed, err := l.Resume(t.Context(), "orders", k.Token(), 10*time.Second)
				require.NoError(t, err)
				now := l.clock()
				require.NoError(t, resumed.Release(t.Context()))
				owed := l.nodes[2].ledger.owed
				expires := owed[len(owed)-1].expires.Since(now)
				require.InDelta(t, expires, c.until, float64(c.until)/50)
				require.Greater(t, expires, c.until)
				time.Sleep(30 * time.Second)
				w.nodes[2].unreachable(false)
				time.Sleep(10 * time.Second)
				w.keyless("orders")
			})
		})
	}
}
