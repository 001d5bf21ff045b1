package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	remote "github.com/redlock-go/redlock/internal/node"
)

func TestCloseEndsAttemptsUnderWayAtOnce(t *testing.T) {
	for name, call := range map[string]func(l *Locker, token string) error{
		"TryAcquire": func(l *Locker, _ string) error {
			_, err := l.TryAcquire(context.Background(), "other", time.Minute)
			return err
		},
		"Acquire": func(l *Locker, _ string) error {
			_, err := l.Acquire(context.Background(), "other", time.Minute)
			return err
		},
		"Resume": func(l *Locker, token string) error {
			_, err := l.Resume(context.Background(), "orders", token, time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := w.open(WithNodeTimeout(10 * time.Second))
				k := w.hold(l, "orders", time.Minute)
				for _, f := range w.nodes {
					f.slow(4 * time.Second)
				}
				var took time.Duration
				begin := time.Now()
				calling := underWay(func() error {
					err := call(l, k.Token())
					took = time.Since(begin)
					return err
				})
				time.Sleep(10 * time.Millisecond)
				closing := underWay(l.Close)
				require.ErrorIs(t, <-calling, ErrClosed)
				require.Equal(t, 10*time.Millisecond, took)
				require.NoError(t, <-closing)
				w.keyless("other")
			})
		})
	}
}

func TestAReleaseUnderWayIsNotCutShortByClose(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Minute)
		for _, f := range w.nodes {
			f.slow(100 * time.Millisecond)
		}
		releasing := underWay(func() error { return k.Release(t.Context()) })
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, l.Close())
		require.NoError(t, <-releasing)
		w.keyless("orders")
	})
}

// Each function of Trace closes the locker when it is called for the first time.
func TestClosingInAFunctionOfTraceDoesNotHangAndBlamesNoNode(t *testing.T) {
	for _, name := range []string{
		"AttemptDone", "Waiting", "Waited", "Renewed", "automatic", "failing", "Lost", "Released", "NodeDone", "NodeDown", "NodeUp", "DebtPaid", "VoteWithheld",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				var l *Locker
				var armed, called atomic.Bool
				closes := func(in string) {
					if in != name || !armed.Load() || !called.CompareAndSwap(false, true) {
						return
					}
					begin := time.Now()
					require.NoError(t, l.Close())
					require.LessOrEqual(t, time.Since(begin), 800*time.Millisecond)
				}
				l = w.open(WithTrace(&Trace{
					AttemptDone:  func(AttemptInfo) { closes("AttemptDone") },
					Waiting:      func(WaitInfo) { closes("Waiting") },
					Waited:       func(WaitedInfo) { closes("Waited") },
					Renewed:      func(i RenewalInfo) { closes(renewalName(i)) },
					Lost:         func(string, error) { closes("Lost") },
					Released:     func(string, time.Duration, error) { closes("Released") },
					NodeDone:     func(NodeInfo) { closes("NodeDone") },
					NodeDown:     func(string, error) { closes("NodeDown") },
					NodeUp:       func(string, time.Duration) { closes("NodeUp") },
					DebtPaid:     func(string, string) { closes("DebtPaid") },
					VoteWithheld: func(string, string, error) { closes("VoteWithheld") },
				}))
				auto := w.hold(l, "auto", 10*time.Second, AutoRenew())
				k := w.hold(l, "orders", time.Minute)
				armed.Store(true)
				w.eventful(l, k)
				require.True(t, called.Load(), "the function was called")
				require.Error(t, auto.Err())
			})
		})
	}
}

func renewalName(i RenewalInfo) string {
	switch {
	case i.Key != "auto":
		return "Renewed"
	case i.Err != nil:
		return "failing"
	default:
		return "automatic"
	}
}

// eventful brings about something of every kind that Trace tells, and the end of a lock by its ttl.
func (w *world) eventful(l *Locker, k *Lock) {
	ctx := w.t.Context()
	_ = k.Renew(ctx, time.Minute)
	_, _ = l.Acquire(ctx, "auto", time.Second) // waits in vain
	time.Sleep(6 * time.Second)
	w.nodes[0].hang() // through the release, which it owes from then on
	_ = k.Release(ctx)
	time.Sleep(time.Second)
	w.nodes[0].resume()
	w.nodes[1].crash()
	w.nodes[1].restart()
	time.Sleep(3 * time.Second)
	_, _ = l.TryAcquire(ctx, "more", time.Minute)
	time.Sleep(time.Second)
	_, _ = l.TryAcquire(ctx, "other", time.Minute)
	for _, f := range w.nodes {
		f.unreachable(true)
	}
	time.Sleep(11 * time.Second) // the lock that renews itself is lost
}

func TestCloseNamesANodeThatHangsWhenItIsPaidWhatIsOwed(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.openDefault() // whose clients sit out a hang for 5 s
		time.Sleep(time.Second)
		l.nodes[1].OweAgain(remote.Debt{Key: "orders", Token: "me"})
		w.nodes[1].hang()
		require.ErrorContains(t, l.Close(), w.nodes[1].addr)
	})
}
