package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRenewSetsTheTTLAndNeverAdds(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(4 * time.Second)
		begin := time.Now()
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.Equal(t, begin.Add(10*time.Second-102*time.Millisecond), k.Until())
		for range 5 {
			require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		}
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.LessOrEqual(t, f.ttl("orders"), 10*time.Second)
		}
		begin = time.Now()
		require.NoError(t, k.Renew(t.Context(), time.Second), "a shorter ttl is set too")
		require.Equal(t, begin.Add(time.Second-12*time.Millisecond), k.Until())
		time.Sleep(time.Second)
		w.keyless("orders")
		require.ErrorIs(t, k.Err(), ErrLost)
	})
}

func TestRenewFailureNeverLengthensUntil(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		until := k.Until()
		w.nodes[0].crash()
		w.nodes[1].crash()
		for range 3 {
			err := k.Renew(t.Context(), 20*time.Second)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.NotErrorIs(t, err, ErrLost)
			require.Equal(t, until, k.Until())
			require.NoError(t, k.Err(), "an outage leaves the lock held until until")
			time.Sleep(time.Second)
		}
		begin := time.Now()
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrNoQuorum)
		require.Equal(t, begin.Add(time.Second-12*time.Millisecond), k.Until(), "one node has the shorter ttl now")
	})
}

func TestRenewMayBeRepeatedAfterAnOutage(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		for _, f := range w.nodes {
			f.hang()
		}
		require.ErrorIs(t, k.Renew(t.Context(), 10*time.Second), ErrNoQuorum)
		for _, f := range w.nodes {
			f.resume()
		}
		time.Sleep(2500 * time.Millisecond)
		begin := time.Now()
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.Equal(t, begin.Add(10*time.Second-102*time.Millisecond), k.Until())
	})
}

func TestRenewEndsWithItsContextAndLeavesTheLockHeld(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		for _, f := range w.nodes {
			f.hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err := k.Renew(ctx, 10*time.Second)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, k.Err())
	})
}

func TestRenewGivesTheTokenBackToANodeThatForgot(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[1].server.Del("orders")
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, w.count("orders", k.Token()))
		require.Equal(t, 3, k.Nodes())
	})
}

func TestRenewReachesANodeThatWasDownAtTheAcquire(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.nodes[1].crash()
		l := w.open()
		k := w.hold(l, "orders", 60*time.Second)
		require.Equal(t, 2, k.Nodes())
		w.nodes[1].restart()
		time.Sleep(3 * time.Second)
		require.NoError(t, k.Renew(t.Context(), 60*time.Second))
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, k.Nodes())
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestHealedNodesDoNotCountInTheRenewalThatHealsThem(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[0].server.Del("orders")
		w.nodes[1].server.Del("orders")
		err := k.Renew(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, k.Err(), ErrLost, "a definite loss ends the lock at once")
		<-k.Done()
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		time.Sleep(time.Millisecond)
		w.keyless("orders")
	})
}

func TestHealedNodesCountFromTheNextRenewalOn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[0].server.Del("orders")
		w.nodes[1].crash()
		require.ErrorIs(t, k.Renew(t.Context(), 10*time.Second), ErrNoQuorum, "one holds, one is healed, one is down")
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
	})
}

func TestThreeNodesRestartedOneByOneWithTwoRenewalsBetweenKeepTheLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		for _, f := range w.nodes {
			f.crash()
			time.Sleep(time.Second)
			f.restart()
			time.Sleep(10 * time.Second)
			require.NoError(t, k.Err())
		}
		require.Equal(t, 3, k.Nodes())
		require.Equal(t, 3, w.count("orders", k.Token()))
	})
}

func TestALateRenewalDoesNotTouchTheNextHoldersKey(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.open(), w.open()
		k := w.hold(a, "orders", time.Second)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			f.hang()
		}
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrNoQuorum)
		<-k.Done()
		for _, f := range w.nodes {
			f.resume()
		}
		time.Sleep(5 * time.Second)
		next := w.hold(b, "orders", 10*time.Second)
		require.ErrorIs(t, k.Renew(t.Context(), 10*time.Second), ErrLost)
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		time.Sleep(time.Second)
		require.Equal(t, 3, w.count("orders", next.Token()))
	})
}

func TestRenewalsOfOneLockDoNotOverlap(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(10+i*7) * time.Millisecond)
		}
		k := w.hold(l, "orders", 10*time.Second)
		done := make(chan error, 2)
		go func() { done <- k.Renew(t.Context(), time.Second) }()
		time.Sleep(time.Millisecond)
		begin := time.Now()
		go func() { done <- k.Renew(t.Context(), 20*time.Second) }()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Greater(t, k.Until().Sub(begin), 19*time.Second)
		time.Sleep(100 * time.Millisecond)
		for _, f := range w.nodes {
			require.Greater(t, f.ttl("orders"), time.Until(k.Until()))
		}
	})
}

// A shorter renewal that was cut off on a quorum may still reach it after a longer one.
func TestUntilAllowsForAShorterRenewalThatArrivesLate(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes[:2] {
			f.hang()
		}
		require.ErrorIs(t, k.Renew(t.Context(), 4*time.Second), ErrNoQuorum)
		for _, f := range w.nodes[:2] {
			f.resume()
		}
		time.Sleep(time.Second)
		begin := time.Now()
		require.NoError(t, k.Renew(t.Context(), 20*time.Second))
		require.LessOrEqual(t, k.Until().Sub(begin), 4*time.Second)
	})
}

func TestAutoRenewKeepsTheLock(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 20*time.Second, AutoRenew())
		time.Sleep(5*time.Minute + time.Second)
		require.NoError(t, k.Err())
		renewals := len(w.nodes[0].commands("EVALSHA"))
		require.GreaterOrEqual(t, renewals, 30, "one every ttl/2 or sooner")
		require.LessOrEqual(t, renewals, 38, "but not before 0.4 ttl")
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Minute)
		w.keyless("orders")
		require.Len(t, w.nodes[0].commands("EVALSHA"), renewals+1, "no renewal after the release")
	})
}

func TestAutoRenewSurvivesAnOutageShorterThanTheValidity(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		time.Sleep(4900 * time.Millisecond)
		for _, f := range w.nodes {
			f.hang()
		}
		time.Sleep(2500 * time.Millisecond)
		for _, f := range w.nodes {
			f.resume()
		}
		time.Sleep(time.Minute)
		require.NoError(t, k.Err())
	})
}

func TestAutoRenewRetriesWithJitterUntilUntil(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		for _, f := range w.nodes {
			f.vetoing(func(command string) string {
				if strings.HasPrefix(command, "EVALSHA") {
					return "ERR out of order"
				}
				return ""
			})
		}
		<-k.Done()
		require.ErrorIs(t, k.Err(), ErrLost)
		tries := len(w.nodes[0].commands("EVALSHA"))
		require.Greater(t, tries, 8)
		require.Less(t, tries, 100)
		time.Sleep(time.Minute)
		require.Len(t, w.nodes[0].commands("EVALSHA"), tries, "no renewal after the loss")
	})
}

func TestAutoRenewEndsAtOnceWhenAQuorumHasAnotherToken(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		begin := time.Now()
		time.Sleep(time.Second)
		for _, f := range w.nodes[1:] {
			require.NoError(t, f.server.Set("orders", "someone"))
		}
		<-k.Done()
		require.InDelta(t, 4.5, time.Since(begin).Seconds(), 0.51, "at the first renewal")
		require.ErrorIs(t, k.Err(), ErrLost)
		var q *QuorumError
		require.ErrorAs(t, k.Err(), &q)
		require.Equal(t, []int{1, 2}, []int{q.Granted, q.Refused})
	})
}

func TestMaxHoldEndsALockThatRenewsItself(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew(), MaxHold(33*time.Second))
		<-k.Done()
		held := time.Since(begin)
		require.LessOrEqual(t, held, 33*time.Second)
		require.Greater(t, held, 32*time.Second)
		require.ErrorIs(t, k.Err(), ErrLost)
		require.ErrorContains(t, k.Err(), "MaxHold of 33s")
		time.Sleep(33*time.Second - held + 10*time.Millisecond)
		w.keyless("orders") // nor do the nodes keep it longer
		require.Less(t, len(w.nodes[0].commands("EVALSHA")), 10)
	})
}

func TestMaxHoldBoundsManualRenewalsToo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second, MaxHold(15*time.Second))
		require.NoError(t, k.Renew(t.Context(), 10*time.Minute))
		require.LessOrEqual(t, k.Until().Sub(begin), 15*time.Second)
		<-k.Done()
		require.ErrorIs(t, k.Renew(t.Context(), time.Minute), ErrLost)
	})
}

func TestAShorterRenewalByHandKeepsTheAutomaticOnesGoing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 20*time.Second, AutoRenew())
		require.NoError(t, k.Renew(t.Context(), 2*time.Second))
		time.Sleep(time.Minute)
		require.NoError(t, k.Err())
		require.Greater(t, k.Validity(), 5*time.Second, "back at its own ttl")
	})
}

// A shorter renewal by hand whose answer was lost: later renewals are believed for its ttl alone, but come
// every half of the longer one.
func TestALostShorterRenewalByHandDoesNotEndTheAutomaticOnes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", 10*time.Second, AutoRenew())
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes[:2] {
			f.mute()
		}
		require.ErrorIs(t, k.Renew(t.Context(), 4*time.Second), ErrNoQuorum)
		w.all((*fakeNode).resume)
		time.Sleep(time.Minute)
		require.NoError(t, k.Err())
	})
}

func TestWhatIsLeftOfALostRenewalIsNotSent(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		l := w.openDefault() // whose clients sit out a hang for 5 s
		k := w.hold(l, "orders", 60*time.Second)
		w.nodes[0].slow(190 * time.Millisecond)
		go w.hold(l, "busy", 60*time.Second) // keeps the worker from the renewal
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, k.Renew(ctx, 60*time.Second), context.DeadlineExceeded)
		time.Sleep(time.Second)
		require.Empty(t, w.nodes[0].commands("EVALSHA"))
		require.NoError(t, k.Renew(t.Context(), 60*time.Second))
	})
}
