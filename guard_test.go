package redlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
					named = named || strings.Contains(err.Error(), "vote withheld for")
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
			f.started = time.Now()
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

func TestYoungNodesAreWithheldWhereOthersAreOldOrUnknown(t *testing.T) {
	for name, third := range map[string]func(f *fakeNode){
		"old":  func(f *fakeNode) { f.started = time.Now().Add(-time.Minute) },
		"down": (*fakeNode).crash,
		"hung": (*fakeNode).hang,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				for _, f := range w.nodes {
					f.started = time.Now().Add(-5 * time.Second)
				}
				third(w.nodes[2])
				l := w.openNow()
				_, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				time.Sleep(200*time.Millisecond - time.Since(w.nodes[0].started.Add(5*time.Second)))
				time.Sleep(time.Millisecond)
				_, err = l.TryAcquire(t.Context(), "orders", 10*time.Second)
				require.Regexp(t, `restarted (4\.\d+|[56]\.?\d*)s ago, vote withheld for [45]\.?\d*s`, err.Error())
				time.Sleep(6200 * time.Millisecond)
				w.hold(l, "orders", 10*time.Second)
			})
		})
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
		time.Sleep(14 * time.Second)
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
		time.Sleep(10 * time.Second)
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

func TestServerInfoIsReadForRunIDAndUptime(t *testing.T) {
	for text, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:42\r\n": "abc 42s",
		"run_id:abc\nuptime_in_seconds:7":                                            "abc 7s",
		"run_id:abc\r\nuptime_in_seconds:-3598\r\n":                                  "abc 0s",
		"run_id:abc\r\nuptime_in_seconds:99999999999999999999\r\n":                   "abc 0s",
		"run_id:abc\r\nuptime_in_seconds:9999999999\r\n":                             "abc 8784h0m0s",
		"run_id:abc\r\n": "abc 0s",
		"":               " 0s",
		"nonsense":       " 0s",
	} {
		runID, uptime := parseServerInfo(text)
		require.Equal(t, want, fmt.Sprintf("%s %v", runID, uptime), "%q", text)
	}
}

// A server's uptime is the difference of two times in whole seconds: 3 s may be 2.1.
func TestAnUptimeMayBeASecondTooLong(t *testing.T) {
	g := newGuard(&config{}, 3)
	now := after(time.Hour)
	g.met(0, "a", 3*time.Second, now)
	g.met(1, "b", time.Hour, now)
	require.ErrorContains(t, g.withheld(g.identity(0), 3*time.Second, now), "restarted 2s ago, vote withheld for 1s")
	require.NoError(t, g.withheld(g.identity(0), 3*time.Second, now.Add(time.Second)))
	require.NoError(t, g.withheld(g.identity(1), 3*time.Second, now))
	require.NoError(t, g.withheld(g.identity(2), 3*time.Second, now), "unknown")
}

func TestANodeThatMayBeOlderThanTheWindowIsNoFreshDeployment(t *testing.T) {
	g := newGuard(&config{}, 3)
	now := after(time.Hour)
	g.met(0, "a", 0, now)
	g.met(1, "b", 0, now)
	g.met(2, "c", 2*time.Second, now) // 1.1 to 2.9 s
	for range 3 {
		g.introduced()
	}
	require.ErrorContains(t, g.withheld(g.identity(0), 2*time.Second, now), "vote withheld")
	require.ErrorContains(t, g.withheld(g.identity(0), 3*time.Second, now), "vote withheld")
	require.NoError(t, g.withheld(g.identity(0), 4*time.Second, now), "all are younger")
	later := now.Add(2500 * time.Millisecond)
	require.NoError(t, g.withheld(g.identity(0), 4*time.Second, later), "and were, when they were met")
	g.met(1, "b2", 0, later)
	require.NoError(t, g.withheld(g.identity(0), 4*time.Second, later), "another's restart is not this one's")
	require.ErrorContains(t, g.withheld(g.identity(1), 4*time.Second, later), "vote withheld for 4s")
}

func TestANodeThatRestartsBeforeAllAreMetLeavesNoFreshDeployment(t *testing.T) {
	g := newGuard(&config{}, 2)
	now := after(time.Hour)
	g.met(0, "a", 0, now)
	g.met(0, "a2", 0, now.Add(time.Second))
	g.met(1, "b", 0, now.Add(2*time.Second))
	require.ErrorContains(t, g.withheld(g.identity(1), 10*time.Second, now.Add(2*time.Second)), "vote withheld")
}

func TestAFreshDeploymentGrantsThroughTheEndOfItsWindow(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.started = time.Now()
		}
		l := w.openNow()
		for range 130 {
			require.NoError(t, w.hold(l, "orders", 10*time.Second).Release(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
	})
}
