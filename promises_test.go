package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A SET NX that arrives late finds the key and changes nothing.
func TestALostReplyToTheAcquireDoesNotBoundLaterRenewals(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].mute()
		k := w.hold(l, "orders", 2*time.Second)
		time.Sleep(300 * time.Millisecond)
		w.nodes[0].resume()
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			require.NoError(t, k.Renew(t.Context(), time.Minute))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 5, k.Nodes())
		require.Greater(t, k.Validity(), 59*time.Second)
	})
}

// cutOff loses a renewal of ttl on two of three nodes, which are up again afterwards.
func (w *world) cutOff(k *Lock, ttl time.Duration) {
	w.t.Helper()
	for _, f := range w.nodes[:2] {
		f.hang()
	}
	require.ErrorIs(w.t, k.Renew(w.t.Context(), ttl), ErrNoQuorum)
	time.Sleep(250 * time.Millisecond)
	for _, f := range w.nodes[:2] {
		f.resume()
	}
	time.Sleep(2500 * time.Millisecond)
}

func TestOfSeveralCutOffRenewalsTheShortestBoundsTheNextOne(t *testing.T) {
	for name, ttls := range map[string][]time.Duration{
		"shorter first": {6 * time.Second, 15 * time.Second},
		"longer first":  {15 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				k := w.hold(w.open(), "orders", time.Minute)
				time.Sleep(time.Millisecond)
				for _, ttl := range ttls {
					w.cutOff(k, ttl)
				}
				begin := time.Now()
				require.NoError(t, k.Renew(t.Context(), time.Minute))
				require.LessOrEqual(t, k.Until().Sub(begin), 6*time.Second)
				require.Greater(t, k.Until().Sub(begin), 5*time.Second)
			})
		})
	}
}

// A command of each ttl is still under way. When the shorter one arrives, the node has kept time.
func TestANodeThatGotTheShortestCutOffRenewalLateIsNotTakenForOneWhoseClockRunsAhead(t *testing.T) {
	now := after(0)
	k := lockOnHandSetClock(&now, 10*time.Second)
	k.spots[0].set, k.spots[0].ttl = now, 20*time.Second
	lose := func(ttl time.Duration) {
		r := &round{op: renewOp, start: now, ttl: ttl, gate: noGate}
		k.mu.Lock()
		k.prepare(r)
		k.mu.Unlock()
		r.answer(0, answer{vote: failed, place: maybe, unanswered: true, err: errors.New("cut off")})
	}
	lose(4 * time.Second)
	lose(8 * time.Second)
	k.spots[0].set, k.spots[0].ttl = now, 20*time.Second // a longer one was answered since
	now = after(time.Second)
	require.LessOrEqual(t, k.missingLife(0, answer{timed: true, left: 3 * time.Second}), time.Duration(0))
	require.Greater(t, k.missingLife(0, answer{timed: true, left: 2500 * time.Millisecond}), 400*time.Millisecond)
}

func TestAQuorumPromisesWhatItsShortestMemberKeepsWhateverTheOthersDo(t *testing.T) {
	now := after(0)
	for _, c := range []struct {
		cuts []time.Duration // by node: 0 for none
		want time.Duration
	}{
		{[]time.Duration{0}, 20},
		{[]time.Duration{5}, 5},
		{[]time.Duration{30}, 20},
		{[]time.Duration{0, 0, 0}, 20},
		{[]time.Duration{5, 0, 0}, 20}, // two of three promise it all
		{[]time.Duration{5, 7, 0}, 7},
		{[]time.Duration{5, 7, 6}, 6},
		{[]time.Duration{5, 0, -1}, 5}, // the third did not grant
		{[]time.Duration{0, 5, 0, 6, 0}, 20},
		{[]time.Duration{0, 5, 7, 6, 0}, 7},
	} {
		k := lockOnHandSetClock(&now, 10*time.Second)
		k.spots, k.quorum = make([]spot, len(c.cuts)), majority(len(c.cuts))
		r := &round{ttl: 20, verdict: won, calls: make([]call, len(c.cuts))}
		for i, cut := range c.cuts {
			r.calls[i].vote = granted
			if cut < 0 {
				r.calls[i].vote = failed
			}
			k.spots[i].cut = max(0, cut)
		}
		require.Equal(t, c.want, k.promised(r), "%v", c.cuts)
	}
}

// The node answered a longer renewal with an error, so its key has the life that it had.
func TestANodeThatRefusedALongerRenewalIsNotTakenForOneWhoseClockRunsAhead(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[0].vetoing(func(command string) string {
			if strings.HasPrefix(command, "EVALSHA") {
				return "ERR busy with something else"
			}
			return ""
		})
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		time.Sleep(time.Millisecond)
		w.nodes[0].vetoing(nil)
		w.nodes[2].crash() // so that the vote of the first node is needed
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		w.hold(l, "other", time.Minute)
	})
}

// Two in flight could reach the nodes in different orders, and the longer one would be believed.
func TestARenewalIsNotSentWhileAnotherOneIsUndecided(t *testing.T) {
	for name, second := range map[string]func(k *Lock){
		"by hand":   func(k *Lock) { _ = k.Renew(k.locker.life, 20*time.Second) },
		"automatic": func(*Lock) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				var options []AcquireOption
				if name == "automatic" {
					options = append(options, AutoRenew())
				}
				k := w.hold(w.open(), "orders", 10*time.Second, options...)
				for _, f := range w.nodes[1:] {
					f.slow(190 * time.Millisecond)
				}
				if name == "automatic" {
					k.mu.Lock()
					next := k.auto.next
					k.mu.Unlock()
					time.Sleep(time.Until(next.Time()) - 20*time.Millisecond)
				}
				first := underWay(func() error { return k.Renew(t.Context(), 10*time.Second) })
				time.Sleep(time.Millisecond)
				go second(k)
				time.Sleep(100 * time.Millisecond)
				require.Len(t, w.nodes[0].commands("EVALSHA"), 1, "this node answers quickly, the others not yet")
				require.NoError(t, <-first)
				time.Sleep(100 * time.Millisecond)
				if name == "by hand" {
					require.Len(t, w.nodes[0].commands("EVALSHA"), 2)
				}
			})
		})
	}
}

// The first round of an acquire with a fence is won while its call to a slow node is still queued. The
// second round is lost: that call must not leave a key after the undo.
func TestWhatIsQueuedOfAWonFirstRoundIsNotSentAfterTheUndo(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		for i, f := range w.nodes[:2] {
			f.setNumber(t, "orders", ahead(time.Duration(i+1)*time.Hour))
			f.vetoing(func(command string) string {
				if strings.HasPrefix(command, "EVALSHA "+renewScript.sha) {
					return "ERR no"
				}
				return ""
			})
		}
		w.nodes[2].slow(150 * time.Millisecond)
		w.hold(l, "first", 10*time.Second) // keeps the worker of the slow node busy
		time.Sleep(time.Millisecond)
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		require.Empty(t, w.nodes[2].commands("orders"))
		w.keyless("orders")
	})
}

func TestTheEndOfMaxHoldIsReachedByOneRenewal(t *testing.T) {
	for _, grain := range []time.Duration{0, 300 * time.Microsecond, 999_999} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			var renewals []time.Duration
			l := w.open(WithTrace(&Trace{Renewed: func(i RenewalInfo) { renewals = append(renewals, time.Until(i.Until)) }}))
			begin := time.Now()
			k := w.hold(l, "orders", 10*time.Second, AutoRenew(), MaxHold(12*time.Second+grain))
			<-k.Done()
			synctest.Wait()
			require.Len(t, renewals, 1, "%v", renewals)
			require.Greater(t, time.Since(begin), 11800*time.Millisecond)
			require.ErrorContains(t, k.Err(), "MaxHold")
		})
	}
}
