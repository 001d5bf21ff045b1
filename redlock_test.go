package redlock

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestAcquireStoresTheTokenOnAllNodesAndReleaseDeletesIt(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, n, func(t *testing.T, w *world) {
				l := w.open()
				k := w.hold(l, "orders", 10*time.Second)
				time.Sleep(time.Millisecond)
				require.Equal(t, n, w.count("orders", k.Token()))
				require.Equal(t, n, k.Nodes())
				require.NoError(t, k.Err())
				require.NoError(t, k.Release(t.Context()))
				time.Sleep(time.Millisecond)
				w.keyless("orders")
				require.ErrorIs(t, k.Err(), ErrReleased)
				require.Zero(t, k.Validity())
				require.Zero(t, k.Nodes())
			})
		})
	}
}

func TestValidityCountsFromBeforeTheFirstSend(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes {
			f.slow(100 * time.Millisecond)
		}
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second)
		require.Greater(t, time.Since(begin), 100*time.Millisecond)
		want := begin.Add(10*time.Second - 100*time.Millisecond - 2*time.Millisecond)
		require.Equal(t, want, k.Until())
		require.Equal(t, time.Until(want), k.Validity())
	})
}

func TestAcquireEndsAtTheQuorumsLastGrantAndLateGrantsCount(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].slow(150 * time.Millisecond)
		w.nodes[3].slow(150 * time.Millisecond)
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second)
		require.Less(t, time.Since(begin), time.Millisecond)
		require.Equal(t, 3, k.Nodes())
		time.Sleep(160 * time.Millisecond)
		require.Equal(t, 5, k.Nodes())
	})
}

func TestTheSlowestNodeDoesNotSetTheLatencyOfRenewAndRelease(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		w.nodes[0].slow(150 * time.Millisecond)
		w.nodes[3].slow(150 * time.Millisecond)
		begin := time.Now()
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.NoError(t, k.Release(t.Context()))
		require.Less(t, time.Since(begin), 2*time.Millisecond)
	})
}

func TestLateGrantOnALostAttemptIsUndone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes[:2] {
			require.NoError(t, f.server.Set("orders", "someone"))
		}
		w.nodes[2].slow(100 * time.Millisecond)
		begin := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Less(t, time.Since(begin), time.Millisecond)
		time.Sleep(60 * time.Millisecond)
		require.NotEmpty(t, w.nodes[2].commands("SET orders"), "the late SET should have arrived")
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, w.nodes[2].value("orders"))
	})
}

func TestAcquireEndsAtTheNodeTimeoutAndUndoesWhatItGot(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes[2:] {
			f.hang()
		}
		begin := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.Equal(t, 200*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NotErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "a node's timeout is not the caller's")
		var q *QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, []int{3, 2, 0, 3}, []int{q.Quorum, q.Granted, q.Refused, q.Failed})
		require.Equal(t, w.nodes[4].addr, q.Nodes[4].Node)
		require.Regexp(t, "no answer within 200ms|timeout", q.Nodes[4].Err.Error())
		time.Sleep(time.Millisecond)
		require.Empty(t, w.nodes[0].value("orders"))
		require.Empty(t, w.nodes[1].value("orders"))
	})
}

func TestNodeTimeoutIsAtMostAQuarterOfTheTTL(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes {
			f.hang()
		}
		begin := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders", 100*time.Millisecond)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, 25*time.Millisecond, time.Since(begin))
	})
}

func TestAQuorumThatAnswersAfterTheValidityIsRefusedAndUndone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithDrift(0.9, 2*time.Millisecond)) // 8 ms of 100 ms are left
		for _, f := range w.nodes {
			f.slow(20 * time.Millisecond)
		}
		_, err := l.TryAcquire(t.Context(), "orders", 100*time.Millisecond)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "answered after 20")
		require.ErrorContains(t, err, "of a 100ms ttl")
		time.Sleep(30 * time.Millisecond)
		w.keyless("orders")
	})
}

func TestCancelInMidAcquireLeavesNoKey(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(20+10*i) * time.Millisecond)
		}
		for cancelAfter := time.Duration(0); cancelAfter < 45*time.Millisecond; cancelAfter += 3 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), cancelAfter)
			begin := time.Now()
			k, err := l.TryAcquire(ctx, "orders", 10*time.Second)
			cancel()
			if err == nil { // enough nodes had answered by then
				require.NoError(t, k.Release(t.Context()))
			} else {
				require.Equal(t, cancelAfter, time.Since(begin), "the end of ctx ends the call at once")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, ErrNotAcquired)
			}
			time.Sleep(200 * time.Millisecond)
			w.keyless("orders")
		}
	})
}

func TestACancelledContextSendsNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.TryAcquire(ctx, "orders", time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrNotAcquired)
		_, err = l.Acquire(ctx, "orders", time.Second)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Second)
		for _, f := range w.nodes {
			require.Empty(t, f.commands("orders"))
		}
	})
}

func TestBadInputSendsNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithNodeTimeout(150 * time.Millisecond))
		for want, call := range map[string]func() error{
			"key is empty": func() error { _, err := l.TryAcquire(t.Context(), "", time.Second); return err },
			"10ms …":       func() error { _, err := l.TryAcquire(t.Context(), "orders", 9*time.Millisecond); return err },
			"node timeout": func() error { _, err := l.TryAcquire(t.Context(), "orders", 150*time.Millisecond); return err },
			"TryAcquire does not": func() error {
				_, err := l.TryAcquire(t.Context(), "orders", time.Second, Wait(time.Second))
				return err
			},
			"Wait: -1s": func() error { _, err := l.Acquire(t.Context(), "orders", time.Second, Wait(-time.Second)); return err },
			"MaxHold: 500ms": func() error {
				_, err := l.Acquire(t.Context(), "orders", time.Second, MaxHold(time.Second/2))
				return err
			},
			`Owner: "a b"`: func() error { _, err := l.Acquire(t.Context(), "orders", time.Second, Owner("a b")); return err },
			"ttl -1s": func() error {
				return l.Do(t.Context(), "orders", -time.Second, func(context.Context, *Lock) error { panic("ran") })
			},
		} {
			err := call()
			require.ErrorContains(t, err, want)
			require.NotErrorIs(t, err, ErrNotAcquired, "a mistake is not an outcome")
		}
		time.Sleep(time.Second)
		for _, f := range w.nodes {
			require.Empty(t, f.commands("orders"))
		}
	})
}

func TestHeldIsToldFromNoQuorumWhicheverNodeAnswersFirst(t *testing.T) {
	for slow := range 5 {
		inWorld(t, 5, func(t *testing.T, w *world) {
			l := w.open()
			k := w.hold(l, "orders", 10*time.Second)
			w.nodes[1].crash()
			w.nodes[slow].slow(50 * time.Millisecond)
			for range 2 { // the second meets an open breaker, whose failure comes first
				_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
				require.ErrorIs(t, err, ErrHeld)
				require.NotErrorIs(t, err, ErrNoQuorum)
			}
			require.NoError(t, k.Release(t.Context()))
			for _, f := range w.nodes[2:] {
				f.crash()
			}
			_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.NotErrorIs(t, err, ErrHeld)
		})
	}
}

func TestPlainSetNXOfAnotherClientExcludesOursAndTheReverse(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithOwner("host:1"))
		other := redis.NewClient(&redis.Options{Addr: "10.9.9.9:1", Dialer: w.nodes[0].dial})
		defer other.Close()
		for _, f := range w.nodes {
			require.NoError(t, f.server.Set("orders", "theirs"))
		}
		_, err := l.TryAcquire(t.Context(), "orders", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		for _, f := range w.nodes {
			require.Equal(t, "theirs", f.value("orders"))
			f.server.Del("orders")
		}
		k := w.hold(l, "orders", time.Second)
		require.Regexp(t, `^host:1/[A-Za-z0-9_-]{22}$`, w.nodes[0].value("orders"))
		require.Equal(t, k.Token(), w.nodes[0].value("orders"))
		set, err := other.SetNX(t.Context(), "orders", "theirs", time.Second).Result()
		require.NoError(t, err)
		require.False(t, set)
	})
}

func TestEveryAttemptHasAFreshToken(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		_, err := l.Acquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Release(t.Context()))
		for _, f := range w.nodes {
			sets := f.commands("SET orders") // those of scripts too
			seen := make(map[string]bool)
			for _, command := range sets {
				_, after, _ := strings.Cut(command, "orders ")
				seen[strings.Fields(after)[0]] = true
			}
			require.GreaterOrEqual(t, len(sets), 2)
			require.Len(t, seen, len(sets))
		}
	})
}

func TestTheLockIsNotReentrant(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "orders", 10*time.Second)
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
	})
}

func TestKeyPrefixIsStoredButNotShown(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithKeyPrefix("lock:"))
		k := w.hold(l, "orders", 10*time.Second)
		require.Equal(t, "orders", k.Key())
		require.Equal(t, []string{"orders"}, k.Keys())
		require.Equal(t, k.Token(), w.nodes[0].value("lock:orders"))
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorContains(t, err, `acquire "orders"`)
	})
}

func TestTTLReachesTheNodesInWholeMillisecondsRoundedDown(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 1234*time.Millisecond+999*time.Microsecond)
		require.NotEmpty(t, w.nodes[0].commands("px 1234"))
		require.LessOrEqual(t, k.Validity(), 1234*time.Millisecond)
		require.NoError(t, k.Renew(t.Context(), 2345*time.Millisecond+1))
		require.InDelta(t, 2345*time.Millisecond, w.nodes[0].ttl("orders"), float64(time.Millisecond))
	})
}

func TestAReplyThatIsNoVoteIsAFailureWithAdvice(t *testing.T) {
	for reply, advice := range map[string]string{
		"READONLY You can't write against a read only replica.": "address of its primary",
		"MOVED 3999 127.0.0.1:6381":                             "independent nodes",
		"NOAUTH Authentication required.":                       "password",
		"OOM command not allowed":                               "memory",
		"ERR something new":                                     "something new",
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			for _, f := range w.nodes[:2] {
				f.vetoing(func(command string) string {
					if strings.HasPrefix(command, "SET ") {
						return reply
					}
					return ""
				})
			}
			_, err := l.TryAcquire(t.Context(), "orders", time.Second)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.NotErrorIs(t, err, ErrHeld)
			require.ErrorContains(t, err, w.nodes[0].addr)
			require.ErrorContains(t, err, advice)
			time.Sleep(10 * time.Millisecond)
			w.keyless("orders")
		})
	}
}

// openDefault makes a locker with New over clients with the client library's own settings.
func (w *world) openDefault(opts ...Option) *Locker {
	w.t.Helper()
	var clients []redis.UniversalClient
	for _, f := range w.nodes {
		c := redis.NewClient(&redis.Options{Addr: f.addr, Dialer: f.dial})
		w.t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	l, err := New(clients, opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		for _, f := range w.nodes {
			f.resume()
		}
		_ = l.Close()
	})
	time.Sleep(10 * time.Millisecond)
	return l
}

func TestClientsWithDefaultSettingsNeitherHangNorMisvote(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.openDefault()
		k := w.hold(l, "orders", 10*time.Second)
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		require.NoError(t, k.Release(t.Context()))

		w.nodes[0].mute() // executes, but its reply is lost until the client's own timeout of 5 s
		w.nodes[1].mute()
		begin := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrHeld, "the client must not send SET again and read its own key as taken")
		require.Equal(t, 200*time.Millisecond, time.Since(begin))
		time.Sleep(time.Millisecond)
		begin = time.Now()
		_, err = l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Zero(t, time.Since(begin), "a worker that is overdue costs nothing")

		time.Sleep(6 * time.Second)
		require.Len(t, w.nodes[0].commands("SET orders"), 2, "one for each lock, none repeated")
		w.nodes[0].resume()
		w.nodes[1].resume()
		time.Sleep(4 * time.Second)
		w.keyless("orders")
		require.NoError(t, w.hold(l, "orders", 10*time.Second).Release(t.Context()))
	})
}

func TestALostReplyIsADebtNotARefusal(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].mute()
		w.nodes[1].mute()
		_, err := l.TryAcquire(t.Context(), "orders", 60*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotEmpty(t, w.nodes[0].value("orders"))
		w.nodes[0].resume()
		w.nodes[1].resume()
		time.Sleep(2500 * time.Millisecond)
		w.keyless("orders")
		require.Len(t, w.nodes[0].commands("SET orders"), 1)
	})
}

func TestCloseEndsHeldLocksAndLeavesTheirKeys(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := l.Acquire(t.Context(), "orders", 10*time.Second, Wait(time.Minute))
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, ErrHeld)
		})
		time.Sleep(time.Second)
		begin := time.Now()
		require.NoError(t, l.Close())
		wg.Wait()
		require.Less(t, time.Since(begin), 10*time.Millisecond)
		<-k.Done()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrClosed)
		require.ErrorIs(t, k.Err(), ErrLost)
		require.ErrorIs(t, k.Err(), ErrClosed)
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrLost)
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		require.Equal(t, 3, w.count("orders", k.Token()))

		_, err := l.TryAcquire(t.Context(), "other", time.Second)
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.Acquire(t.Context(), "other", time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, l.Close())
	})
}

func TestCloseSendsTheReleasesThatWereAskedFor(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		w.nodes[0].slow(100 * time.Millisecond)
		require.NoError(t, k.Release(t.Context())) // does not wait for the slow one
		require.NoError(t, l.Close())
		w.keyless("orders")
	})
}

func TestCloseIsBoundedWhenNodesHang(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		own, given := w.open(), w.openDefault()
		for _, f := range w.nodes {
			f.hang()
		}
		_, err := own.TryAcquire(t.Context(), "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		begin := time.Now()
		require.NoError(t, own.Close())
		require.LessOrEqual(t, time.Since(begin), 800*time.Millisecond)

		_, err = given.TryAcquire(t.Context(), "b", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		begin = time.Now()
		require.ErrorContains(t, given.Close(), w.nodes[0].addr)
		require.LessOrEqual(t, time.Since(begin), 800*time.Millisecond)
	})
}

func TestAMinorityThatIsDownNeverMatters(t *testing.T) {
	for name, fault := range map[string]func(*fakeNode){
		"refused": (*fakeNode).crash,
		"hung":    (*fakeNode).hang,
		"black hole": func(f *fakeNode) {
			f.crash()
			f.refuses = context.DeadlineExceeded // what a dial timeout says
		},
		"wrong password": func(f *fakeNode) { f.server.RequireAuth("other") },
	} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before Open %v", name, before), func(t *testing.T) {
				inWorld(t, 5, func(t *testing.T, w *world) {
					if before {
						fault(w.nodes[1])
						fault(w.nodes[4])
					}
					l := w.open()
					if !before {
						fault(w.nodes[1])
						fault(w.nodes[4])
					}
					begin := time.Now()
					for i := range 20 {
						k := w.hold(l, fmt.Sprint("orders", i), 10*time.Second)
						require.GreaterOrEqual(t, k.Nodes(), 3)
						require.NoError(t, k.Renew(t.Context(), 10*time.Second))
						require.NoError(t, k.Release(t.Context()))
					}
					require.Less(t, time.Since(begin), 30*time.Millisecond)
				})
			})
		}
	}
}

func TestGoroutinesDoNotGrowWithTheNumberOfLocks(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		w.hold(l, "first", time.Minute, AutoRenew())
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 200 {
			w.hold(l, fmt.Sprint("k", i), time.Minute, AutoRenew())
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+1)
		time.Sleep(70 * time.Second) // over two renewals
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+1)
		require.Len(t, l.held, 201)
	})
}
