package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"
)

// checked is a Check that must not fail.
func (w *world) checked(l *Locker) *Report {
	w.t.Helper()
	r, err := l.Check(w.t.Context())
	require.NoError(w.t, err)
	require.Len(w.t, r.Nodes, len(w.nodes))
	for i, f := range w.nodes {
		require.Equal(w.t, f.addr, r.Nodes[i].Node)
	}
	return r
}

// found lists the findings as "severity code node", without the codes left out.
func (w *world) found(r *Report, except ...string) (found []string) {
	for _, f := range r.Findings {
		if !slices.Contains(except, f.Code) {
			i := slices.IndexFunc(w.nodes, func(n *fakeNode) bool { return n.addr == f.Node })
			found = append(found, fmt.Sprint(f.Severity, " ", f.Code, " ", i))
		}
	}
	return found
}

// answering lets answer reply to commands before the node does; false leaves them to it.
func (f *fakeNode) answering(answer func(c *server.Peer, command string) bool) {
	f.miniredis().Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		command := strings.Join(append([]string{strings.ToUpper(cmd)}, args...), " ")
		return answer(c, command) || f.hook(c, cmd, args...)
	})
}

// telling makes the node answer INFO as a sound one does, with these lines in place of others.
func (f *fakeNode) telling(lines ...string) {
	f.answering(func(c *server.Peer, command string) bool {
		switch command {
		case "INFO":
			c.WriteBulk(fmt.Sprintf("redis_version:7.0.15\nrun_id:%s\nrole:master\nuptime_in_seconds:9000\nmaxmemory_policy:noeviction\naof_enabled:1\n", f.runID) +
				strings.Join(lines, "\n"))
		case "CONFIG get append*":
			c.WriteStrings([]string{"appendonly", "yes", "appendfsync", "always"})
		default:
			return false
		}
		return true
	})
}

func TestCheckFindsNothingOnSoundNodesAndTellsWhatTheyAre(t *testing.T) {
	for _, way := range []func(w *world) *Locker{
		func(w *world) *Locker { return w.open() },
		func(w *world) *Locker { return w.openDefault() },
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			for _, f := range w.nodes {
				f.telling("connected_clients:7")
			}
			r := w.checked(way(w))
			require.Empty(t, r.Findings)
			for i, n := range r.Nodes {
				trip := w.nodes[i].up.delay + w.nodes[i].down.delay
				require.Equal(t, NodeReport{
					Node: n.Node, Version: "redis 7.0.15", RunID: w.nodes[i].runID, Role: "master", Uptime: 9000 * time.Second,
					RoundTrip: trip, ClockOffset: n.ClockOffset, ClockError: trip / 2,
					Persistence: "appendfsync always", Eviction: "noeviction", MaxMemory: -1, Connections: 7, MaxConnections: -1, Replicas: -1,
				}, n)
				require.LessOrEqual(t, n.ClockOffset.Abs(), n.ClockError)
			}
		})
	}
}

func TestNodesThatTellNothingAreUnknownAndNoFailure(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for i, f := range w.nodes {
			f.vetoing(func(command string) string {
				if command == "INFO" && i > 0 { // the first tells nothing of use by itself
					return "ERR unknown command 'info'"
				}
				if command == "TIME" {
					return "NOPERM this user has no permissions to run the 'time' command"
				}
				return ""
			})
		}
		r := w.checked(l)
		require.Equal(t, []string{"warning no-run-id 0", "warning no-run-id 1", "warning no-run-id 2"}, w.found(r))
		trip := w.nodes[1].up.delay + w.nodes[1].down.delay
		require.Equal(t, NodeReport{
			Node: w.nodes[1].addr, Version: "unknown", RunID: "unknown", Role: "unknown", Uptime: -1, RoundTrip: trip, ClockError: -1,
			Persistence: "unknown", Eviction: "unknown", MaxMemory: -1, Connections: -1, MaxConnections: -1, Replicas: -1,
		}, r.Nodes[1])
	})
}

func TestANodeThatHangsHoldsUpCheckForThreeNodeTimeoutsAtMost(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.openNow() },
		"New":  func(w *world) *Locker { return w.openDefault() },
	} {
		for when, wait := range map[string]time.Duration{"at the first contact": -1, "later": 0, "known": time.Second} {
			t.Run(name+" "+when, func(t *testing.T) {
				inWorld(t, 3, func(t *testing.T, w *world) {
					if wait < 0 {
						w.nodes[1].hang()
					}
					l := open(w)
					if wait >= 0 {
						time.Sleep(10 * time.Millisecond)
						w.nodes[1].hang()
						_, _ = l.TryAcquire(t.Context(), "orders", time.Second)
						time.Sleep(wait)
					}
					begin := time.Now()
					r := w.checked(l)
					require.LessOrEqual(t, time.Since(begin), 600*time.Millisecond)
					require.Equal(t, []string{"warning unreachable 1"}, w.found(r, "no-run-id"))
					require.Error(t, r.Nodes[1].Err)
					require.Equal(t, "unknown", r.Nodes[1].Version)
					require.NoError(t, r.Nodes[0].Err)
					require.Positive(t, r.Nodes[2].RoundTrip)
				})
			})
		}
	}
}

func TestCheckWithoutAnyNodeIsAReportAllTheSame(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].crash()
		w.nodes[1].hang()
		w.nodes[2].hang()
		r := w.checked(l)
		require.Equal(t, []string{"critical unreachable 0", "critical unreachable 1", "critical unreachable 2"}, w.found(r))
		require.ErrorContains(t, r.Nodes[0].Err, "connection refused")
		require.Contains(t, r.Findings[0].Text, "connection refused")
	})
}

func TestANodeThatIsKnownToBeDownHoldsUpNobody(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[1].crash()
		_, _ = l.TryAcquire(t.Context(), "orders", time.Second)
		time.Sleep(3 * time.Second) // between two probes
		begin := time.Now()
		r := w.checked(l)
		require.Less(t, time.Since(begin), 10*time.Millisecond)
		require.ErrorContains(t, r.Nodes[1].Err, "connection refused")
	})
}

func TestCheckWaitsForFirstContactsAndForNewConnections(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.slow(90 * time.Millisecond) // greeting, scripts and INFO take more than a node timeout
		}
		l := w.openNow()
		r := w.checked(l)
		require.Empty(t, w.found(r, "no-run-id", "node-timeout"), "%v", r.Nodes)
		for _, f := range w.nodes {
			f.slow(0)
			f.cut()
		}
		time.Sleep(time.Second)
		for range 2 {
			require.Empty(t, w.found(w.checked(l), "no-run-id"))
		}
	})
}

func TestSlowNodesAreCheckedWithinTenNodeTimeouts(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		for _, f := range w.nodes {
			f.slow(190 * time.Millisecond)
		}
		begin := time.Now()
		r := w.checked(l)
		require.Less(t, time.Since(begin), 2*time.Second)
		require.Equal(t, []string{"warning node-timeout 0", "warning node-timeout 1", "warning node-timeout 2"}, w.found(r, "no-run-id"))
		synctest.Wait()
		w.probeless()
	})
}

// probeless asserts that no node has a probe key.
func (w *world) probeless() {
	w.t.Helper()
	for _, f := range w.nodes {
		require.Empty(w.t, f.miniredis().Keys(), f.addr)
	}
}

func TestCheckWritesOneKeyWithAnExpiryAndTakesItAway(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithKeyPrefix("app:"), WithOwner("me"))
		for _, f := range w.nodes {
			f.mu.Lock()
			f.seen = nil
			f.mu.Unlock()
		}
		w.checked(l)
		w.probeless()
		keys := make(map[string]bool)
		for _, f := range w.nodes {
			var names []string
			for _, command := range f.commands("") {
				name, _, _ := strings.Cut(command, " ")
				names = append(names, name)
			}
			slices.Sort(names)
			require.Equal(t, []string{"CONFIG", "DEL", "EVALSHA", "GET", "INFO", "MGET", "PEXPIRE", "PTTL", "PUBLISH", "SCRIPT", "SET", "TIME"}, slices.Compact(names))
			require.Equal(t, 5, len(f.commands("TIME")))
			require.Len(t, f.commands("SET "), 1)
			require.Equal(t, []string{"SCRIPT load " + inspectScript.Body}, f.commands("SCRIPT "), "which the node has anyway")
			require.Equal(t, []string{"CONFIG get max*", "CONFIG get append*"}, f.commands("CONFIG "))
			require.Regexp(t, `^SET app:redlock-check:[\w-]{22} me/[\w-]{22} nx px 4567$`, f.commands("SET ")[0])
			require.Regexp(t, `^PUBLISH redlock/[\w-]{22} $`, f.commands("PUBLISH ")[0])
			keys[f.commands("SET ")[0]] = true
		}
		require.Len(t, keys, 3, "each has a key of its own")
	})
}

func TestAProbeKeyThatTheScriptCannotReleaseIsDeleted(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[1].vetoing(forbidding("EVALSHA"))
		r := w.checked(l)
		require.Equal(t, []string{"critical no-script-permission 1"}, w.found(r, "no-run-id"))
		w.probeless()
		require.Len(t, w.nodes[1].commands("DEL redlock-check:"), 1)
	})
}

func TestANodeThatHangsAtTheProbeKeyLosesItWhenItIsBack(t *testing.T) {
	for _, at := range []string{"SET ", "PTTL ", "EVALSHA "} {
		for _, cancelled := range []bool{false, true} {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := w.open()
				f := w.nodes[1]
				f.vetoing(func(command string) string {
					if strings.HasPrefix(command, at) {
						f.hang()
					}
					return ""
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if cancelled {
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				r, err := l.Check(ctx)
				if cancelled {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
					require.Equal(t, []string{"warning unreachable 1"}, w.found(r, "no-run-id"))
				}
				require.NotEmpty(t, f.miniredis().Keys())
				time.Sleep(time.Second)
				f.vetoing(nil)
				f.resume()
				time.Sleep(2500 * time.Millisecond) // a probe's delay; the key itself would live for 4.6 s, or half as long again
				w.probeless()
			})
		}
	}
}

// triesKey has Check's last step taken on a node.
func triesKey(t *testing.T, n *node) error {
	c := &checkup{node: n, ctx: t.Context()}
	return c.tryKey("redlock-check:x", "me/x")
}

func TestAProbeKeyThatArrivesLateIsTakenAwayAgain(t *testing.T) {
	for name, c := range map[string]struct {
		open  func(w *world) *Locker
		queue bool          // or wait in a socket
		hang  time.Duration // longer than the key lives, in the second case
	}{
		"behind a batch that hangs": {func(w *world) *Locker { return w.openDefault() }, true, time.Second},
		"from a socket":             {func(w *world) *Locker { return w.open() }, false, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				l := c.open(w)
				w.nodes[0].hang()
				if c.queue {
					_, err := l.TryAcquire(t.Context(), "orders", 40*time.Millisecond) // gives up after 10 ms
					require.ErrorIs(t, err, ErrNoQuorum)
				}
				require.Error(t, triesKey(t, l.nodes[0]))
				time.Sleep(c.hang)
				w.nodes[0].resume()
				time.Sleep(2500 * time.Millisecond)
				if !c.queue { // what waits in the queue of a node that is down is never sent
					require.NotEmpty(t, w.nodes[0].commands("SET redlock-check:x"))
				}
				w.probeless()
			})
		})
	}
}

func TestTheFastestOfAFewRoundTripsCounts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		l := w.open()
		f, asked := w.nodes[0], 0
		f.vetoing(func(command string) string {
			if command == "TIME" {
				asked++
				f.mu.Lock()
				defer f.mu.Unlock()
				f.down.delay = 20 * time.Millisecond
				if asked == 3 {
					f.down.delay = 300 * time.Microsecond
				}
			}
			return ""
		})
		n := w.checked(l).Nodes[0]
		require.Equal(t, 5, asked)
		require.Equal(t, f.up.delay+300*time.Microsecond, n.RoundTrip)
		require.Equal(t, n.RoundTrip/2, n.ClockError)
	})
}

func TestAContextOrCloseEndsCheckAtOnce(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[1].hang()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r, err := l.Check(ctx)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		require.Nil(t, r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "redlock: check: context deadline exceeded")
		_, err = l.Check(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "and nothing is sent")

		w.nodes[1].resume()
		time.Sleep(3 * time.Second)
		w.nodes[1].hang()
		time.AfterFunc(50*time.Millisecond, func() { _ = l.Close() })
		begin = time.Now()
		r, err = l.Check(t.Context())
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		require.Nil(t, r)
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.Check(t.Context())
		require.EqualError(t, err, "redlock: check: locker closed")
	})
}

func TestCheckMeasuresClocksAgainstThisMachines(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[2].miniredis().SetTime(time.Now().Add(-5 * time.Second))
		r := w.checked(l)
		require.Equal(t, []string{"warning clock-offset 2"}, w.found(r, "no-run-id"))
		require.InDelta(t, float64(-5*time.Second), float64(r.Nodes[2].ClockOffset), float64(5*time.Millisecond), "its clock stands still")

		w.nodes[2].miniredis().SetTime(time.Time{})
		w.nodes[2].down.delay = 150 * time.Millisecond // and nothing on the way there
		n := w.checked(l).Nodes[2]
		require.LessOrEqual(t, n.ClockOffset.Abs(), n.ClockError)
		require.Greater(t, n.ClockOffset.Abs(), 70*time.Millisecond, "so the middle is off by all but the whole error")
	})
}

func TestCheckSeesThroughANodeThatCountsInSeconds(t *testing.T) {
	for _, millis := range []int{4000, 5000, -1} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			w.nodes[0].answering(func(c *server.Peer, command string) bool {
				if strings.HasPrefix(command, "PTTL redlock-check:") {
					c.WriteInt(millis)
					return true
				}
				return false
			})
			require.Contains(t, w.found(w.checked(l)), "critical no-expiry-precision 0")
		})
	}
}

func TestANodeThatWantsAPasswordIsUnreachable(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		w.nodes[0].vetoing(func(string) string { return "NOAUTH Authentication required." })
		r := w.checked(l)
		require.Equal(t, []string{"warning unreachable 0"}, w.found(r, "no-run-id"))
		require.ErrorContains(t, r.Nodes[0].Err, "put it into the node's URL")
	})
}

func TestCheckTellsOfARestartThatTheGuardSaw(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, f := range w.nodes {
			f.telling()
		}
		l := w.open()
		w.nodes[1].crash()
		w.notice(l)
		w.nodes[1].restart()
		w.nodes[1].telling() // an uptime of hours, for what that is worth
		time.Sleep(5 * time.Second)
		r := w.checked(l)
		require.Equal(t, []string{"warning restarted-recently 1"}, w.found(r))
		require.Regexp(t, `^restarted [345]\.\d+s ago, while this process ran: the guard withholds`, r.Findings[0].Text)
		time.Sleep(time.Minute)
		require.Empty(t, w.checked(l).Findings)
	})
}
