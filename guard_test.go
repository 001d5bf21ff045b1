package redlock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

func TestRestartedEmptyNodesDoNotGrantAKeyThatIsHeld(t *testing.T) {
	for _, mode := range []GuardMode{GuardAuto, GuardStrict} {
		for _, again := range []bool{false, true} { // by the locker that saw the restart, or by one opened after it
			inWorld(t, 3, func(t *testing.T, w *world) {
				const ttl = 10 * time.Second
				holder, other := w.open(WithRestartGuard(mode)), w.open(WithRestartGuard(mode))
				k := w.hold(holder, "orders", ttl)
				time.Sleep(time.Second)
				for _, f := range w.nodes[:2] {
					f.crash()
					f.restart()
				}
				restarted := time.Now()
				if again {
					time.Sleep(100 * time.Millisecond)
					other = w.open(WithRestartGuard(mode))
				}
				named := false
				for time.Now().Before(k.Until()) {
					_, err := other.TryAcquire(t.Context(), "orders", ttl)
					require.Error(t, err, "granted %v after the restart, %v before the holder's end", time.Since(restarted), time.Until(k.Until()))
					named = named || strings.Contains(err.Error(), "vote withheld for") || strings.Contains(err.Error(), "its vote counts in")
					time.Sleep(97 * time.Millisecond)
				}
				require.True(t, named)
				require.Eventually(t, func() bool {
					k, err := other.TryAcquire(t.Context(), "orders", ttl)
					return err == nil && k.Release(t.Context()) == nil
				}, ttl+2*time.Second-time.Since(restarted), 50*time.Millisecond)
				require.NoError(t, k.locker.Close())
			})
		}
	}
}

func TestWithoutTheGuardRestartedNodesGrantTwice(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		holder, other := w.open(WithRestartGuard(GuardOff)), w.open(WithRestartGuard(GuardOff))
		k := w.hold(holder, "orders", 10*time.Second)
		time.Sleep(time.Second)
		for _, f := range w.nodes[:2] {
			f.crash()
			f.restart()
		}
		require.Eventually(t, func() bool {
			_, err := other.TryAcquire(t.Context(), "orders", 10*time.Second)
			return err == nil
		}, 5*time.Second, 20*time.Millisecond)
		require.NotZero(t, k.Validity(), "two holders at once: what the guard prevents")
	})
}

// notice lets a locker use connections that a restart has broken, so that it makes new ones: an
// idle locker learns of a restart at its next use.
func (w *world) notice(l *Locker) {
	w.t.Helper()
	_, err := l.TryAcquire(w.t.Context(), "notice", 10*time.Second)
	_ = err // broken connections, withheld votes, or a quorum without the restarted nodes
	time.Sleep(3 * time.Second)
}

func TestAWithheldGrantIsUndone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes[:2] {
			f.crash()
			f.restart()
		}
		w.notice(l)
		_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Regexp(t, `10\.0\.0\.1:6379: restarted .*s ago, vote withheld for .*s`, err.Error())
		require.NotEmpty(t, w.nodes[0].commands("SET orders"))
		time.Sleep(10 * time.Millisecond)
		w.keyless("orders")
	})
}

func TestAWithheldNodeThatTookTheTokenCountsForTheRenewal(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].crash()
		w.nodes[0].restart()
		w.notice(l)
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, k.Nodes())
		w.nodes[1].crash()
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
	})
}

func TestAFreshDeploymentIsNotKeptWaiting(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.startedAgo(0)
		}
		l := w.openNow()
		begin := time.Now()
		k := w.hold(l, "orders", 10*time.Second)
		require.Less(t, time.Since(begin), 5*time.Millisecond, "the first attempt of all, while the nodes are being met")
		require.NoError(t, k.Release(t.Context()))

		strict := w.open(WithRestartGuard(GuardStrict))
		_, err := strict.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(11 * time.Second)
		w.hold(strict, "orders", 10*time.Second)
	})
}

func TestYoungNodesAreWithheldWhereOthersAreOldOrMissing(t *testing.T) {
	for name, third := range map[string]func(f *fakeNode){
		"old":  func(f *fakeNode) { f.startedAgo(time.Minute) },
		"down": (*fakeNode).crash,
		"hung": (*fakeNode).hang,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				for _, f := range w.nodes {
					f.startedAgo(5 * time.Second)
				}
				third(w.nodes[2])
				l := w.openNow()
				_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				time.Sleep(200*time.Millisecond - time.Since(w.nodes[0].started.Add(5*time.Second)))
				time.Sleep(time.Millisecond)
				_, err = l.TryAcquire(t.Context(), "orders", 10*time.Second)
				require.Regexp(t, `10\.0\.0\.1:6379: started (4\.\d+|[56]\.?\d*)s ago and may have forgotten keys; its vote counts in [56]\.?\d*s`, err.Error())
				time.Sleep(6400 * time.Millisecond)
				w.hold(l, "orders", 10*time.Second)
			})
		})
	}
}

// A minority that is not there yet must not keep a new deployment from working for a whole ttl.
func TestANewDeploymentWaitsForAMissingMinorityOnlyForAWhile(t *testing.T) {
	for name, age := range map[string]time.Duration{"together": 0, "one after the other": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				w.nodes[0].startedAgo(age)
				w.nodes[1].startedAgo(0)
				w.nodes[2].crash()
				l := w.open()
				_, err := l.TryAcquire(t.Context(), "orders", time.Hour)
				require.ErrorContains(t, err, "may have forgotten keys")
				time.Sleep(absentAfter)
				_, err = l.TryAcquire(t.Context(), "orders", time.Hour)
				if age > 0 {
					require.ErrorContains(t, err, "may have forgotten keys")
					return
				}
				require.NoError(t, err)
				w.nodes[2].restart() // it is back, and has run for long
				w.nodes[2].startedAgo(24 * time.Hour)
				time.Sleep(3 * time.Second)
				_, err = l.TryAcquire(t.Context(), "others", time.Hour)
				require.ErrorContains(t, err, "may have forgotten keys", "so there was a life before")
			})
		})
	}
}

func TestARollingRestartIsNoNewDeployment(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.open()
		k := w.hold(a, "orders", 2*time.Minute)
		for _, f := range w.nodes {
			time.Sleep(5 * time.Second)
			f.crash()
			f.restart()
		}
		b := w.open()
		require.NoError(t, b.guard.withheld(identity{}, time.Minute, b.clock()))
		for time.Now().Before(k.Until()) {
			_, err := b.TryAcquire(t.Context(), "orders", 2*time.Minute)
			require.Error(t, err, "granted while the first lock is valid for %v", k.Validity())
			time.Sleep(time.Second)
		}
		require.Eventually(t, func() bool {
			_, err := b.TryAcquire(t.Context(), "orders", 2*time.Minute)
			return err == nil
		}, time.Minute, time.Second)
	})
}

// infoAt is what a server of some version tells of itself, by its own time of day.
func infoAt(runID string, started, now time.Time, micros bool) serverInfo {
	text := fmt.Sprintf("run_id:%s\r\nuptime_in_seconds:%d\r\n", runID, now.Unix()-started.Unix())
	if micros {
		text += fmt.Sprintf("server_time_usec:%d\r\n", now.UnixMicro())
	}
	return parseServerInfo(text)
}

// Nodes that were started together vote at once, whatever their age and the ttl, although their
// ages are told in whole seconds.
func TestNodesThatWereStartedTogetherVoteAtEveryAgeAndTTL(t *testing.T) {
	for seed := range uint64(40) { // half of them with servers before Redis 7
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, nodes := range []int{1, 3, 5} {
			for age := time.Duration(0); age <= 10*time.Second; age += 100 * time.Millisecond {
				now := after(time.Hour)
				g := newGuard(&config{drift: defaultConfig().drift}, nodes, now)
				micros := seed%2 == 0
				for i := range nodes {
					spread := time.Duration(rng.Int64N(int64(time.Second / 2)))
					ofDay := time.Unix(1_000_000, rng.Int64N(1e9)) // nodes need not agree on the time of day
					g.met(i, infoAt("a", ofDay.Add(-age-spread), ofDay, micros), now, now)
				}
				for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute} {
					require.NoError(t, g.withheld(g.identity(0), ttl, now), "seed %d, %d nodes, %v old, ttl %v", seed, nodes, age, ttl)
				}
			}
		}
	}
}

// Five seconds from one restart to the next are enough to tell, with any number of nodes.
func TestNodesThatWereRestartedOneByOneAreToldFromANewDeployment(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		nodes := 2 + rng.IntN(4)
		now := after(time.Hour)
		g := newGuard(&config{drift: defaultConfig().drift}, nodes, now)
		for i := range nodes {
			age := time.Duration(i)*5*time.Second + 100*time.Millisecond
			ofDay := time.Unix(1_000_000, rng.Int64N(1e9))
			g.met(i, infoAt("a", ofDay.Add(-age), ofDay, seed%2 == 0), now, now)
		}
		require.Error(t, g.withheld(g.identity(0), time.Minute, now), "seed %d", seed)
	}
}

func TestTheAgeOfANodeLiesBetweenItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		age := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "age"))
		now := time.Unix(1_000_000, rapid.Int64Range(0, 1e9-1).Draw(t, "fraction"))
		micros := rapid.Bool().Draw(t, "micros")
		s := infoAt("a", now.Add(-age), now, micros)
		require.LessOrEqual(t, s.atLeast, age)
		require.GreaterOrEqual(t, s.atMost, age)
		width := 2 * time.Second
		if micros {
			width = 1100 * time.Millisecond
		}
		require.LessOrEqual(t, s.atMost-s.atLeast, width)
	})
}

// rated is a client's clock that runs at a rate of its own.
func rated(rate float64) func() clock.Instant {
	begin := time.Now()
	return func() clock.Instant {
		return clock.At(begin.Add(time.Duration(float64(time.Since(begin))*rate)), 0)
	}
}

// openRated is open for a client whose clock is rated.
func (w *world) openRated(rate float64) *Locker {
	w.t.Helper()
	now := rated(rate)
	nodes, clients := w.makeNodes(defaultConfig())
	for _, n := range nodes {
		n.clock = now
	}
	l := start(defaultConfig(), nodes, clients)
	l.panel.clock = now // which the workers do not read
	w.closeAtEnd(l)
	synctest.Wait()
	time.Sleep(3 * time.Millisecond)
	return l
}

// The clocks of both clients are less than 1 % off those of the nodes, one is slow, the other fast.
func TestTheWindowAllowsForTheDriftOfTwoClients(t *testing.T) {
	const ttl = 100 * time.Second
	forget := map[string]func(w *world, k *Lock){
		"restart": func(w *world, _ *Lock) {
			for _, f := range w.nodes[1:] {
				f.crash()
				f.restart()
			}
		},
		"clock set forward": func(w *world, _ *Lock) {
			for _, f := range w.nodes[1:] {
				f.server.FastForward(2 * ttl)
			}
		},
	}
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				a, b := w.openRated(0.991), w.openRated(1.009)
				if name != "restart" { // a lock of b's shows it that these clocks run ahead
					warm := w.hold(b, "warm", time.Hour)
					ka := w.hold(a, "orders", ttl)
					forget(w, ka)
					_ = warm.Renew(t.Context(), time.Hour)
					waitForSecondGrant(t, w, ka, b, ttl)
					return
				}
				ka := w.hold(a, "orders", ttl)
				forget(w, ka)
				waitForSecondGrant(t, w, ka, b, ttl)
			})
		})
	}
}

func waitForSecondGrant(t *testing.T, w *world, first *Lock, l *Locker, ttl time.Duration) {
	t.Helper()
	for {
		second, err := l.TryAcquire(t.Context(), "orders", ttl)
		if err == nil {
			require.Zero(t, first.Validity(), "granted on %d nodes while the first lock is valid", second.Nodes())
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestTheWindowIsThatOfTheLongestTTLInUse(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithMaxTTL(30 * time.Second))
		for _, f := range w.nodes[:2] {
			f.crash()
			f.restart()
		}
		w.notice(l)
		time.Sleep(17 * time.Second)
		_, err := l.TryAcquire(t.Context(), "orders", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(15 * time.Second)
		k := w.hold(l, "orders", time.Second)
		_, err = l.TryAcquire(t.Context(), "other", 31*time.Second)
		require.ErrorContains(t, err, "WithMaxTTL")
		require.ErrorContains(t, k.Renew(t.Context(), time.Minute), "WithMaxTTL")
	})
}

func TestANodeThatDoesNotTellItsRunIDIsNotWithheld(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.runID = ""
		}
		l := w.open()
		for _, f := range w.nodes[:2] {
			f.crash()
			f.restart()
			f.mu.Lock()
			f.runID = ""
			f.mu.Unlock()
		}
		w.notice(l)
		w.hold(l, "orders", 10*time.Second)
	})
}

func TestARestartThatHidesInThePoolIsNoticedBeforeItsVoteCounts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		l := w.openDefault()
		w.hold(l, "orders", 10*time.Second)
		f := w.nodes[0]
		f.mu.Lock()
		f.runID = "another"
		f.mu.Unlock()
		f.server.FlushAll()
		f.cut() // the pool may dial anew without an error; the breaker may notice it first
		for range 50 {
			_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
			require.Error(t, err)
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Both lockers have used the nodes before. One of them told its run_id and answers INFO without it now, or
// with an error.
func TestANodeThatStopsTellingItsRunIDDoesNotCount(t *testing.T) {
	for name, stops := range map[string]func(f *fakeNode){
		"no run_id": func(f *fakeNode) { f.runID = " " },
		"an error":  func(f *fakeNode) { f.runID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				a, b := w.open(), w.open()
				k := w.hold(a, "orders", time.Minute)
				for _, f := range w.nodes[1:] {
					f.crash()
					f.restart()
					f.mu.Lock()
					stops(f)
					f.mu.Unlock()
				}
				for k.Validity() > 0 {
					_, err := b.TryAcquire(t.Context(), "orders", time.Minute)
					require.Error(t, err, "granted while A is valid for %v", k.Validity())
					time.Sleep(time.Second)
				}
				for _, f := range w.nodes[1:] { // they tell it again, on the same connections
					f.mu.Lock()
					f.runID = "again"
					f.mu.Unlock()
				}
				_, err := b.TryAcquire(t.Context(), "orders", time.Minute)
				require.ErrorContains(t, err, "restarted")
				time.Sleep(b.guard.window(time.Minute))
				_, err = b.TryAcquire(t.Context(), "orders", time.Minute)
				require.NoError(t, err)
			})
		})
	}
}

// The client of each node was in use before New, or is a clone: no dial passes its hooks.
func TestRestartsAreNoticedThroughClientsThatCountNoConnections(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.open()
		var clients []redis.UniversalClient
		for _, f := range w.nodes {
			c := redis.NewClient(&redis.Options{Addr: f.addr, Dialer: f.dial})
			t.Cleanup(func() { _ = c.Close() })
			clients = append(clients, c.WithTimeout(time.Second))
		}
		b, err := New(clients)
		require.NoError(t, err)
		defer b.Close()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, w.hold(b, "warm", time.Minute).Release(t.Context()))
		require.Len(t, w.nodes[0].commands("INFO server"), 3, "one for a, one for b's first contact, one for its acquire")
		k := w.hold(a, "orders", time.Minute)
		for _, f := range w.nodes[1:] {
			f.crash()
			f.restart()
		}
		for k.Validity() > 0 {
			_, err := b.TryAcquire(t.Context(), "orders", time.Minute)
			require.Error(t, err, "granted while A is valid for %v", k.Validity())
			time.Sleep(time.Second)
		}
	})
}

func TestAClosedLockerIsForgottenByItsClients(t *testing.T) {
	f := newFakeNode(t, 0)
	client := redis.NewClient(&redis.Options{Addr: f.addr, Dialer: f.dial})
	t.Cleanup(func() { f.crash(); f.carriers.Wait() })
	defer client.Close()
	var gone weak.Pointer[node]
	var counts []*atomic.Uint64
	for range 2 {
		func() {
			l, err := New([]redis.UniversalClient{client})
			require.NoError(t, err)
			<-l.nodes[0].Introduced()
			gone, counts = weak.Make(l.nodes[0]), append(counts, dialsOf(client))
			require.NoError(t, l.Close())
		}()
		require.Eventually(t, func() bool { runtime.GC(); return gone.Value() == nil }, 5*time.Second, 10*time.Millisecond,
			"the client keeps the node of a closed locker, with all that it points to")
	}
	require.Same(t, counts[0], counts[1], "one hook for each client, however many lockers")
}

func TestANodeWhoseClockRunsAheadIsFoundAtTheRenewal(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Second)
		for _, f := range w.nodes[:2] {
			f.server.FastForward(3 * time.Second)
		}
		until := k.Until()
		err := k.Renew(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Regexp(t, `10\.0\.0\.1:6379: its clock runs ahead: of a 10s ttl, 2\.\d+s are missing`, err.Error())
		require.Equal(t, until, k.Until())
		require.NoError(t, k.Renew(t.Context(), 10*time.Second), "and believed again once it has kept time")

		_, err = l.TryAcquire(t.Context(), "other", 10*time.Second)
		require.ErrorContains(t, err, "its clock ran ahead")
		time.Sleep(10*time.Second + 2*l.cfg.drift.allowance(10*time.Second))
		w.hold(l, "other", 10*time.Second)
	})
}

func TestAFastClockIsFoundAtEveryRenewal(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		for range 6 {
			time.Sleep(4 * time.Second)
			w.nodes[0].server.FastForward(time.Second)
			require.NoError(t, k.Renew(t.Context(), 10*time.Second))
			time.Sleep(time.Millisecond)
			fast := l.guard.identity(0)
			require.True(t, fast.ahead)
			require.Less(t, clock.Now().Ago(fast.aheadAt), 2*time.Millisecond)
		}
	})
}

func TestClocksWithinTheDriftAllowanceRaiseNoAlarm(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.slow(time.Duration(10+20*i) * time.Millisecond)
		}
		k := w.hold(l, "orders", 10*time.Second)
		for range 50 {
			time.Sleep(5 * time.Second)
			for _, f := range w.nodes {
				f.server.FastForward(45 * time.Millisecond) // 0.9 %
			}
			require.NoError(t, k.Renew(t.Context(), 10*time.Second))
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, 3, k.Nodes())
		}
	})
}

func TestServerInfoIsReadForRunIDAndAge(t *testing.T) {
	for text, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:42\r\n": "abc 41s 43s",
		"run_id:abc\nuptime_in_seconds:7":                                            "abc 6s 8s",
		"run_id:abc\nserver_time_usec:1700000000250000\nuptime_in_seconds:7":         "abc 6.25s 7.35s",
		"run_id:abc\r\nuptime_in_seconds:-3598\r\n":                                  "abc 0s 1s",
		"run_id:abc\r\nuptime_in_seconds:99999999999999999999\r\n":                   "abc 0s 1s",
		"run_id:abc\r\nuptime_in_seconds:9999999999\r\n":                             "abc 8783h59m59s 8784h0m1s",
		"run_id:abc\r\n": "abc 0s 1s",
		"":               " 0s 1s",
		"nonsense":       " 0s 1s",
	} {
		s := parseServerInfo(text)
		require.Equal(t, want, fmt.Sprintf("%s %v %v", s.runID, s.atLeast, s.atMost), "%q", text)
	}
}

// old and young are what a node tells that was started long ago, or just now.
func old(runID string) serverInfo   { return serverInfo{runID, time.Hour, time.Hour} }
func young(runID string) serverInfo { return serverInfo{runID, 0, time.Second} }

func guardOf(nodes int, now clock.Instant) *guard {
	g := newGuard(&config{drift: drift{factor: 0.01, constant: 2 * time.Millisecond}}, nodes, now)
	for range nodes {
		g.introduced()
	}
	return g
}

// A server's uptime is the difference of two times in whole seconds: 3 s may be 2.1.
func TestTheWindowIsCountedFromTheLatestPossibleStart(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(3, now)
	g.met(0, serverInfo{"a", 2 * time.Second, 4 * time.Second}, now, now)
	g.met(1, old("b"), now, now)
	require.ErrorContains(t, g.withheld(g.identity(0), 3*time.Second, now), "started 2s ago and may have forgotten keys; its vote counts in 1.06s")
	require.NoError(t, g.withheld(g.identity(0), 3*time.Second, now.Add(1064*time.Millisecond)))
	require.NoError(t, g.withheld(g.identity(1), 3*time.Second, now))
	require.NoError(t, g.withheld(g.identity(2), 3*time.Second, now), "unknown")
}

func TestARestartIsOfOneNodeAlone(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(3, now)
	for i, id := range []string{"a", "b", "c"} {
		g.met(i, young(id), now, now)
	}
	later := now.Add(2500 * time.Millisecond)
	require.NoError(t, g.withheld(g.identity(0), 4*time.Second, later), "they were started together")
	g.met(1, young("b2"), later, later)
	require.NoError(t, g.withheld(g.identity(0), 4*time.Second, later), "another's restart is not this one's")
	require.ErrorContains(t, g.withheld(g.identity(1), 4*time.Second, later), "restarted 0s ago, vote withheld for 4.08s")
}

func TestANodeThatToldItsRunIDCountsAgainOnlyWithOne(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(1, now)
	g.met(0, old("a"), now, now)
	require.NoError(t, g.withheld(g.identity(0), time.Second, now))
	g.met(0, serverInfo{}, now, now)
	require.ErrorContains(t, g.withheld(g.identity(0), time.Second, now.Add(time.Hour)), "told its run_id before")
	g.met(0, old("a"), now, now)
	require.NoError(t, g.withheld(g.identity(0), time.Second, now))
	g.met(0, serverInfo{}, now, now)
	g.met(0, old("b"), now, now)
	require.ErrorContains(t, g.withheld(g.identity(0), time.Second, now), "restarted", "while it was silent")
}

func TestAWallClockThatIsSetForwardEndsNoWindow(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(1, now)
	g.met(0, old("a"), now, now)
	g.met(0, old("b"), now, now)
	slept := afterSleep(time.Hour, time.Hour) // or it was set, where the two cannot be told apart
	require.ErrorContains(t, g.withheld(g.identity(0), time.Second, slept), "vote withheld")
	g.ranAhead(0, now)
	require.ErrorContains(t, g.withheld(g.identity(0), time.Second, slept), "ran ahead")
}

func TestANodeThatRestartsBeforeAllAreMetLeavesNoNewDeployment(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(2, now)
	g.met(0, young("a"), now, now)
	g.met(0, young("a2"), now.Add(time.Second), now.Add(time.Second))
	g.met(1, young("b"), now.Add(2*time.Second), now.Add(2*time.Second))
	require.ErrorContains(t, g.withheld(g.identity(1), 10*time.Second, now.Add(2*time.Second)), "may have forgotten keys")
}

func TestANodeThatAnswersAndDoesNotTellItsAgeMayBeOld(t *testing.T) {
	now := after(time.Hour)
	g := guardOf(3, now)
	g.met(0, young("a"), now, now)
	g.met(1, young("b"), now, now)
	g.met(2, serverInfo{}, now, now)
	require.ErrorContains(t, g.withheld(g.identity(0), time.Hour, now.Add(2*absentAfter)), "may have forgotten keys")
}

func TestAFreshDeploymentGrantsThroughTheEndOfItsWindow(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.startedAgo(0)
		}
		l := w.openNow()
		for range 130 {
			require.NoError(t, w.hold(l, "orders", 10*time.Second).Release(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
	})
}
