package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Servers that are older than, or only look like, the ones that the client library expects.

func refusing(reply string, commands ...string) func(command string) string {
	return func(command string) string {
		for _, c := range commands {
			if name, _, _ := strings.Cut(command, " "); strings.EqualFold(name, c) {
				return reply
			}
		}
		return ""
	}
}

func TestAnOldServerWithoutHELLOAndCLIENTSETINFOWorks(t *testing.T) {
	for name, open := range map[string]func(w *world) *Locker{
		"Open": func(w *world) *Locker { return w.open() },
		"New":  func(w *world) *Locker { return w.openDefault() }, // whose clients do ask for them
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				w.all(func(f *fakeNode) { f.vetoing(refusing("ERR unknown command", "HELLO", "CLIENT")) })
				l := open(w)
				for range 3 {
					k := w.hold(l, "orders", 10*time.Second)
					time.Sleep(time.Millisecond)
					require.Equal(t, 3, k.Nodes())
					require.NoError(t, k.Renew(t.Context(), 10*time.Second))
					require.NoError(t, k.Release(t.Context()))
					time.Sleep(time.Millisecond)
					w.keyless("orders")
					w.all((*fakeNode).cut) // and greet anew
					w.notice(l)
					w.notice(l) // a lost attempt leaves the last node unasked
				}
				for _, f := range w.nodes {
					require.NotEmpty(t, f.commands("HELLO"), "the client library does ask")
					if name == "Open" {
						require.Empty(t, f.commands("CLIENT"))
					}
				}
			})
		})
	}
}

func TestANodeWithoutINFOIsUnknownNotWithheld(t *testing.T) {
	for _, reply := range []string{
		"ERR unknown command 'INFO'",
		"NOPERM this user has no permissions to run the 'info' command",
		"ERR syntax error",
	} {
		for name, open := range map[string]func(w *world) *Locker{
			"Open": func(w *world) *Locker { return w.open() },
			"New":  func(w *world) *Locker { return w.openDefault() },
		} {
			t.Run(name+", "+reply, func(t *testing.T) {
				inWorld(t, 3, func(t *testing.T, w *world) {
					mute := func(f *fakeNode) {
						f.mu.Lock()
						defer f.mu.Unlock()
						f.runID, f.veto = "", refusing(reply, "INFO")
					}
					w.all(mute)
					l := open(w)
					k := w.hold(l, "orders", 10*time.Second)
					time.Sleep(time.Millisecond)
					require.Equal(t, 3, k.Nodes())
					require.NoError(t, k.Renew(t.Context(), 10*time.Second))
					require.NoError(t, k.Release(t.Context()))
					w.all(func(f *fakeNode) { f.crash(); f.restart(); mute(f) })
					w.notice(l)
					w.hold(l, "orders", 10*time.Second)
					time.Sleep(3 * time.Second)
					for _, n := range l.Stats().Nodes {
						require.True(t, n.Up)
						require.Zero(t, n.Restarts, "not known, and not claimed")
					}
				})
			})
		}
	}
}

// Some in-memory stand-ins keep every key for ever. A minority of them costs its own votes.
func TestAKeyThatNeverExpiresOnAMinorityBlocksNobody(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Second)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.NoError(t, f.server.Set("orders", k.Token())) // without a ttl
		}
		require.NoError(t, k.Renew(t.Context(), time.Second), "no ttl is no sign of a clock that runs ahead")
		for _, f := range w.nodes[:2] {
			require.NoError(t, f.server.Set("orders", k.Token()))
		}
		<-k.Done()
		time.Sleep(time.Minute) // its holder has crashed
		for range 3 {
			next := w.hold(l, "orders", time.Second)
			require.NoError(t, next.Renew(t.Context(), time.Second))
			require.NoError(t, next.Release(t.Context()))
		}
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		time.Sleep(time.Millisecond)
		w.keyless("orders") // a late release frees even those
	})
}
