package redlock

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What goes wrong with the safety of such locks, one test for each kind of trouble that the
// other files do not cover as a whole. docs/faults.md lists them all.

func (w *world) all(fault func(f *fakeNode)) {
	for _, f := range w.nodes {
		fault(f)
	}
}

func TestALateRenewalDoesNotReviveALostLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.open(), w.open()
		k := w.hold(a, "orders", time.Second)
		until := k.Until()
		time.Sleep(time.Until(until) - 20*time.Millisecond)
		w.all(func(f *fakeNode) { f.slow(50 * time.Millisecond) }) // all grant, 30 ms after until
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrLost)
		require.Zero(t, time.Since(until), "told at until")
		time.Sleep(100 * time.Millisecond)
		require.NotZero(t, w.count("orders", k.Token()), "the grants did come, afterwards")
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Equal(t, until, k.Until())
		require.Zero(t, k.Validity())

		w.all(func(f *fakeNode) { f.slow(0) })
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		next := w.hold(b, "orders", 10*time.Second)
		require.NoError(t, next.Release(t.Context())) // held in between, and free again
		time.Sleep(10 * time.Millisecond)
		require.ErrorIs(t, k.Renew(t.Context(), time.Second), ErrLost, "a key that is gone is no invitation")
		time.Sleep(10 * time.Millisecond)
		w.keyless("orders")
	})
}

func TestAReplyThatWakesAStoppedHolderDoesNotReviveItsLock(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		machine := &sleepy{}
		l.clock = machine.now
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(5 * time.Second)
		w.all(func(f *fakeNode) { f.slow(50 * time.Millisecond) })
		renewed := make(chan error, 1)
		go func() { renewed <- k.Renew(t.Context(), 10*time.Second) }()
		time.Sleep(40 * time.Millisecond)
		machine.sleeps(5 * time.Second) // suspended past until; the reply comes before the timer
		require.ErrorIs(t, <-renewed, ErrLost)
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Zero(t, k.Validity())
	})
}

func TestALockOfABareMajorityBecomesWholeAtItsRenewals(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		a := w.open()
		w.nodes[3].crash()
		w.nodes[4].hang()
		k := w.hold(a, "orders", 10*time.Second, AutoRenew())
		require.Equal(t, 3, k.Nodes())
		w.nodes[3].restart()
		w.nodes[4].resume()
		time.Sleep(11 * time.Second)
		require.Equal(t, 5, k.Nodes())
		b := w.open()
		for _, f := range w.nodes[:2] { // two of the three that granted it
			f.server.Del("orders")
		}
		_, err := b.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(11 * time.Second)
		require.NoError(t, k.Err())
		require.Equal(t, 5, w.count("orders", k.Token()))
	})
}

func TestANodeWhoseClockRunsFastIsFoundWhileItsKeysStillExclude(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.open(), w.open()
		k := w.hold(a, "orders", 10*time.Second)
		for range 5 { // 3 % fast on a quorum, in five steps
			time.Sleep(time.Second)
			for _, f := range w.nodes[1:] {
				f.server.FastForward(30 * time.Millisecond)
			}
			require.NoError(t, k.Renew(t.Context(), 10*time.Second), "30 ms are within the allowance of a 10 s ttl")
		}
		time.Sleep(5 * time.Second)
		for _, f := range w.nodes[1:] {
			f.server.FastForward(150 * time.Millisecond)
		}
		until := k.Until()
		require.ErrorContains(t, k.Renew(t.Context(), 10*time.Second), "its clock runs ahead")
		require.Equal(t, until, k.Until())
		_, err := b.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
	})
}

// A process that is stopped, or whose machine is suspended, between the send and the reply reads
// the reply late. The lease began when it was sent.
func TestAStoppedClockOfTheHolderCountsFromBeforeTheSend(t *testing.T) {
	for _, stopped := range []time.Duration{9 * time.Second, 9898 * time.Millisecond, time.Minute} {
		t.Run(fmt.Sprint(stopped), func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := w.open()
				machine := &sleepy{}
				l.clock = machine.now
				w.all(func(f *fakeNode) { f.slow(20 * time.Millisecond) })
				time.AfterFunc(10*time.Millisecond, func() { machine.sleeps(stopped) })
				k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
				if stopped < 9800*time.Millisecond {
					require.NoError(t, err)
					require.LessOrEqual(t, k.Validity(), 10*time.Second-stopped-102*time.Millisecond)
					machine.sleeps(stopped + time.Second) // and stopped again, between grant and use
					require.Zero(t, k.Validity())
					require.ErrorIs(t, k.Err(), ErrLost)
					return
				}
				require.ErrorIs(t, err, ErrNoQuorum)
				require.Regexp(t, `answered after (9\.9|1m0).*of a 10s ttl`, err.Error())
				time.Sleep(50 * time.Millisecond)
				w.keyless("orders")
			})
		})
	}
}

func TestARenewalThatAnswersAfterItsOwnValidityDoesNotCount(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithDrift(0.9, 2*time.Millisecond))
		k := w.hold(l, "orders", 10*time.Second)
		w.all(func(f *fakeNode) { f.slow(20 * time.Millisecond) })
		until := k.Until()
		begin := time.Now()
		err := k.Renew(t.Context(), 100*time.Millisecond) // 8 ms of it are left
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "answered after 20")
		require.False(t, k.Until().After(until))
		require.False(t, k.Until().After(begin.Add(8*time.Millisecond)), "the nodes have the shorter ttl now")
		require.ErrorIs(t, k.Err(), ErrLost)
	})
}

// Everything that a former holder may still have under way: renewals and releases in slow
// networks, releases owed, an undo; and what it may call.
func TestNothingAFormerHolderDoesTouchesTheNextHoldersKey(t *testing.T) {
	for name, last := range map[string]func(t *testing.T, k *Lock){
		"nothing": func(*testing.T, *Lock) {},
		"release": func(t *testing.T, k *Lock) { require.ErrorIs(t, k.Release(t.Context()), ErrLost) },
		"renew":   func(t *testing.T, k *Lock) { require.ErrorIs(t, k.Renew(t.Context(), time.Minute), ErrLost) },
		"close":   func(t *testing.T, k *Lock) { require.NoError(t, k.locker.Close()) },
		"acquire again": func(t *testing.T, k *Lock) {
			_, err := k.locker.TryAcquire(t.Context(), "orders", time.Minute, Owner(k.Owner()))
			require.ErrorIs(t, err, ErrNotAcquired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				a := w.open()
				k, other := w.hold(a, "orders", time.Second), w.hold(a, "other", time.Second)
				time.Sleep(time.Millisecond)
				w.all(func(f *fakeNode) { f.slow(8 * time.Second) }) // both of these arrive four seconds from now
				require.ErrorIs(t, k.Renew(t.Context(), time.Minute), ErrNoQuorum)
				_ = other.Release(t.Context())
				w.all(func(f *fakeNode) { f.slow(0) })
				<-k.Done()
				time.Sleep(time.Second)
				b := w.open()
				next := w.hold(b, "orders", 10*time.Second)
				last(t, k)
				for i := range 8 {
					require.Equal(t, 3, w.count("orders", next.Token()))
					for _, f := range w.nodes {
						require.Greater(t, f.ttl("orders"), time.Until(next.Until()), "nor its ttl")
						require.LessOrEqual(t, f.ttl("orders"), time.Until(next.Until())+103*time.Millisecond)
						if i > 3 {
							require.NotEmpty(t, f.commands(k.Token()+" 60000"), "the renewal should have arrived")
						}
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

func TestASetWhoseReplyIsCutOffIsNotSentAgain(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() }, // with the client library's retries
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := open(w)
				for _, f := range w.nodes[:2] {
					f.vetoing(func(command string) string {
						if strings.HasPrefix(command, "SET ") {
							f.cut() // executed all the same
						}
						return ""
					})
				}
				_, err := l.TryAcquire(t.Context(), "orders", 30*time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				require.NotErrorIs(t, err, ErrHeld, "its own key, read as another's")
				time.Sleep(5 * time.Second)
				require.Len(t, w.nodes[0].commands(" nx px "), 1, "by script from the second time on")
				w.keyless("orders")
			})
		})
	}
}

func TestEveryGrantIsAHandleOfItsOwn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithOwner("one:1"))
		var mu sync.Mutex
		var handles []*Lock
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				k, err := l.Acquire(t.Context(), "orders", time.Minute, Wait(0))
				require.NoError(t, err)
				token, until := k.Token(), k.Until()
				require.NoError(t, k.Err())
				require.NoError(t, k.Release(t.Context()))
				time.Sleep(time.Second) // others hold the key meanwhile
				require.Equal(t, token, k.Token())
				require.Equal(t, until, k.Until())
				require.ErrorIs(t, k.Err(), ErrReleased)
				require.ErrorIs(t, k.Release(t.Context()), ErrReleased)
				mu.Lock()
				handles = append(handles, k)
				mu.Unlock()
			})
		}
		wg.Wait()
		tokens := make(map[string]bool)
		for _, k := range handles {
			tokens[k.Token()] = true
		}
		require.Len(t, tokens, 50)
	})
}

func TestAReleaseIsNeverOvertakenByARenewalUnderWay(t *testing.T) {
	for name, fault := range map[string]func(f *fakeNode){
		"slow":   func(*fakeNode) {},
		"queued": func(*fakeNode) {},
		"hung":   (*fakeNode).hang,
		"mute":   (*fakeNode).mute,
		"cut":    (*fakeNode).cut,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := w.open()
				for i, f := range w.nodes {
					f.slow(time.Duration(20+10*i) * time.Millisecond)
				}
				for after := time.Duration(0); after < 60*time.Millisecond; after += 12 * time.Millisecond {
					k := w.hold(l, "orders", 2*time.Minute)
					time.Sleep(50 * time.Millisecond)
					if name == "queued" { // behind something else
						go func() { _, _ = l.TryAcquire(t.Context(), fmt.Sprint("other", after), time.Second) }()
						time.Sleep(time.Millisecond)
					}
					renewed := make(chan error, 1)
					go func() { renewed <- k.Renew(t.Context(), 2*time.Minute) }()
					time.Sleep(after)
					for _, f := range w.nodes[:2] {
						fault(f)
					}
					_ = k.Release(t.Context())
					if err := <-renewed; err != nil && !strings.Contains(err.Error(), "failed") {
						require.ErrorIs(t, err, ErrReleased)
					}
					time.Sleep(300 * time.Millisecond)
					w.all((*fakeNode).resume)
					time.Sleep(5 * time.Second)
					w.keyless("orders")
				}
			})
		})
	}
}

// It is held up on its dead connection, while the release takes a new one.
func TestARenewalThatArrivesAfterTheReleaseIsTakenBack(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		k := w.hold(w.open(), "orders", time.Minute)
		time.Sleep(time.Millisecond)
		w.all(func(f *fakeNode) { f.slow(600 * time.Millisecond) }) // 300 ms to get there
		require.ErrorIs(t, k.Renew(t.Context(), time.Minute), ErrNoQuorum)
		w.all(func(f *fakeNode) { f.slow(0) })
		time.Sleep(10 * time.Millisecond)
		require.ErrorIs(t, k.Release(t.Context()), ErrNoQuorum, "the nodes have just said nothing for a node timeout")
		time.Sleep(5 * time.Second)
		for _, f := range w.nodes {
			require.Len(t, f.commands("PEXPIRE orders"), 1, "the late renewal")
		}
		w.keyless("orders")
	})
}

func TestRenewalsDoNotStarveBehindOtherTraffic(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var late time.Duration
		var mu sync.Mutex
		l := w.open(WithTrace(&Trace{Renewed: func(i RenewalInfo) {
			mu.Lock()
			defer mu.Unlock()
			late = max(late, i.Late)
		}}))
		for _, f := range w.nodes {
			require.NoError(t, f.server.Set("busy", "someone"))
		}
		k := w.hold(l, "orders", 800*time.Millisecond, AutoRenew())
		for i, f := range w.nodes {
			f.slow(time.Duration(50+i) * time.Millisecond)
		}
		var wg sync.WaitGroup
		for range 512 {
			wg.Go(func() {
				for begin := time.Now(); time.Since(begin) < 1600*time.Millisecond; {
					_, err := l.TryAcquire(t.Context(), "busy", 10*time.Second)
					require.ErrorIs(t, err, ErrNotAcquired)
				}
			})
		}
		wg.Wait()
		require.NoError(t, k.Err())
		require.GreaterOrEqual(t, l.Stats().Renewed, uint64(3))
		mu.Lock()
		defer mu.Unlock()
		require.Less(t, late, 50*time.Millisecond)
	})
}

func TestAStalledProcessSeesInTheTraceHowLateItsRenewalsAre(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var r recorder
		var l *Locker
		l = w.open(WithTrace(r.trace(&l)))
		machine := &sleepy{}
		l.clock = machine.now
		k := w.hold(l, "orders", 10*time.Second, AutoRenew())
		time.Sleep(time.Second)
		machine.sleeps(2 * time.Second)
		time.Sleep(5 * time.Second)
		require.NoError(t, k.Err())
		require.True(t, r.has("renewed orders true on 3 late 2s"), strings.Join(r.all(), "\n"))
	})
}
