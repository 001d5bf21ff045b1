package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/clock"
	remote "github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/wire"
)

var bothEngines = map[string]func(w *world) *Locker{
	"Open": func(w *world) *Locker { return w.open() },
	"New":  func(w *world) *Locker { return w.openDefault() },
}

func TestConnectionsThatBrokeWhileIdleFailNoCall(t *testing.T) {
	for name, open := range bothEngines {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := open(w)
				for i := range 5 {
					time.Sleep(4 * time.Second)
					w.all((*fakeNode).cut)
					k, err := l.TryAcquire(t.Context(), fmt.Sprint("k", i), 10*time.Second)
					require.NoError(t, err)
					time.Sleep(4 * time.Second)
					w.all((*fakeNode).cut)
					require.NoError(t, k.Renew(t.Context(), 10*time.Second))
					time.Sleep(4 * time.Second)
					w.all((*fakeNode).cut)
					require.NoError(t, k.Release(t.Context()))
					time.Sleep(time.Second)
					w.keyless(fmt.Sprint("k", i))
				}
			})
		})
	}
}

// The reply is lost, not the command: the second copy meets the token of the first.
func TestASecondCopyOfAnAcquireFindsItsOwnTokenAndIsGranted(t *testing.T) {
	for name, open := range bothEngines {
		for _, fenced := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", fenced ", fenced), func(t *testing.T) {
				inWorld(t, 3, func(t *testing.T, w *world) {
					var l *Locker
					if fenced && name == "Open" {
						l = w.open(WithFencing())
					} else {
						l = open(w)
					}
					time.Sleep(3 * time.Second)
					for _, f := range w.nodes {
						struck := false
						f.vetoing(func(command string) string {
							if !struck && (len(command) > 4 && command[:4] == "SET ") {
								struck = true
								f.cut() // executed all the same
							}
							return ""
						})
					}
					k := w.hold(l, "orders", time.Minute)
					time.Sleep(50 * time.Millisecond)
					require.Equal(t, 3, w.count("orders", k.Token()))
					require.GreaterOrEqual(t, k.Nodes(), 2)
					require.NoError(t, k.Release(t.Context()))
					time.Sleep(time.Second)
					w.keyless("orders")
				})
			})
		}
	}
}

func TestASecondCopyOfARenewalCountsOnlyIfTheFirstHasNotRun(t *testing.T) {
	for left, want := range map[time.Duration]vote{
		5 * time.Second: granted, 10 * time.Second: failed, 9900 * time.Millisecond: failed, -1: failed,
	} {
		for _, op := range []*operation{renewOp, fenceOp} {
			r := deafRound(t, op, 3, nil)
			r.ttl, r.start = 10*time.Second, clock.Now()
			r.launch()
			reply := wire.Value{Kind: wire.List, List: []wire.Value{{Kind: wire.Int, Int: 1}, {Kind: wire.Int, Int: left.Milliseconds()}, {Kind: wire.Int}}}
			if left < 0 {
				reply.List[1].Int = -1
			}
			r.Answer(&r.calls[0].Call, remote.Answer{Reply: reply, Twice: true, Known: true})
			require.Equal(t, want, r.calls[0].vote, "%s, %v left", op.name, left)
			require.Equal(t, present, r.claim.spots[0].place)
			require.Equal(t, 10*time.Second, r.claim.spots[0].late, "the first copy may still arrive")

			r = deafRound(t, op, 3, nil)
			r.ttl, r.start = 10*time.Second, clock.Now()
			r.launch()
			r.Answer(&r.calls[0].Call, remote.Answer{Reply: reply, Known: true})
			require.Equal(t, granted, r.calls[0].vote, "sent once: no doubt")
		}
	}
	r := deafRound(t, resumeOp, 3, nil)
	r.launch()
	reply := wire.Value{Kind: wire.List, List: []wire.Value{{Kind: wire.Int, Int: 1}, {Kind: wire.Int, Int: 1000}, {Kind: wire.Int}}}
	r.Answer(&r.calls[0].Call, remote.Answer{Reply: reply, Twice: true})
	require.Equal(t, granted, r.calls[0].vote, "a resumption heals nothing")
}

func TestASecondCopyOfAReleaseThatFindsNothingHasReleased(t *testing.T) {
	for place, want := range map[place]vote{present: granted, maybe: refused} {
		r := deafRound(t, releaseOp, 3, nil)
		r.claim.keys, r.claim.token = []any{"orders"}, "me/x"
		r.claim.spots[0].place = place
		r.launch()
		r.Answer(&r.calls[0].Call, remote.Answer{Reply: wire.Value{Kind: wire.Int, Int: 2}, Twice: true})
		require.Equal(t, want, r.calls[0].vote)
	}
}

func TestTheSecondCopyOfASetGoesByTheScriptThatKnowsItsToken(t *testing.T) {
	r := deafRound(t, acquireOp, 3, nil)
	r.args = acquireArgs("orders", "me/x", time.Second)
	r.claim.keys, r.claim.token = []any{"orders"}, "me/x"
	first, wanted := r.Take(&r.calls[0].Call, false)
	require.True(t, wanted)
	require.Equal(t, "set", first.Args[0])
	second, wanted := r.Take(&r.calls[0].Call, true)
	require.True(t, wanted)
	require.Equal(t, []any{"evalsha", acquireScript.SHA, 1, "orders", "me/x"}, second.Args[:5])
	require.Equal(t, acquireAllOp, r.opOf(0, true))
	r.claim.ended = true
	_, wanted = r.Take(&r.calls[0].Call, true)
	require.False(t, wanted)
}

// Round trips in which a dial, a greeting, the identity and a vote do not fit into one node timeout.
func TestANewProcessGetsItsFirstLockFromDistantNodes(t *testing.T) {
	for _, rtt := range []time.Duration{60, 120, 180} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			for _, f := range w.nodes {
				f.slow(rtt * time.Millisecond)
			}
			l := w.openNow()
			begin := time.Now()
			k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 1200*time.Millisecond)
			require.NoError(t, k.Release(t.Context()))
		})
	}
}
