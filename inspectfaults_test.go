package redlock

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInspectWaitsForTheSlowestNodeThatCanAnswer(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", 10*time.Second)
		time.Sleep(time.Millisecond)
		w.nodes[3].slow(150 * time.Millisecond)
		delay := w.nodes[3].up.delay + w.nodes[3].down.delay
		begin := time.Now()
		s := w.inspected(l, "orders")
		require.Equal(t, delay, time.Since(begin))
		for _, n := range s.Nodes {
			require.Equal(t, k.Token(), n.Token)
			require.NoError(t, n.Err)
		}
	})
}

func TestInspectIsBackAtTheNodeTimeoutWhenANodeHangsAndAtOnceWhenThatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		open          func(w *world) *Locker
		first, second string
	}{
		"Open": {func(w *world) *Locker { return w.open() }, "^no answer within 200ms$", "^no answer within 200ms$"},
		"New":  {func(w *world) *Locker { return w.openDefault() }, "^no answer within 200ms$", `^no answer within 200ms$`},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				l := c.open(w)
				k := w.hold(l, "orders", 10*time.Second)
				time.Sleep(time.Millisecond)
				w.nodes[1].hang()
				begin := time.Now()
				s := w.inspected(l, "orders")
				require.Equal(t, 200*time.Millisecond, time.Since(begin))
				require.True(t, s.Held)
				require.Equal(t, k.Token(), s.Token)
				require.Equal(t, []string{k.Token(), "", k.Token()}, []string{s.Nodes[0].Token, s.Nodes[1].Token, s.Nodes[2].Token})
				require.Regexp(t, c.first, s.Nodes[1].Err.Error())
				synctest.Wait() // the worker of that node finds out at the same instant

				begin = time.Now()
				s = w.inspected(l, "orders")
				require.Less(t, time.Since(begin), time.Millisecond)
				require.True(t, s.Held)
				require.Regexp(t, c.second, s.Nodes[1].Err.Error())

				w.nodes[1].resume()
				time.Sleep(3 * time.Second)
				require.NoError(t, w.inspected(l, "orders").Nodes[1].Err)
			})
		})
	}
}

func TestInspectWithoutAQuorumShowsWhatIsKnownBesideTheError(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Hour)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes[1:] {
			f.crash()
		}
		for range 3 {
			begin := time.Now()
			s, err := l.Inspect(t.Context(), "orders")
			require.Less(t, time.Since(begin), time.Millisecond)
			require.ErrorIs(t, err, ErrNoQuorum)
			require.False(t, s.Held, "one node says that it is, and that is not enough")
			require.Empty(t, s.Token)
			require.Equal(t, k.Token(), s.Nodes[0].Token)
			var q *QuorumError
			require.ErrorAs(t, err, &q)
			require.Equal(t, "inspect", q.Op)
			require.Equal(t, []string{"orders"}, q.Keys)
			require.Equal(t, []int{2, 1, 0, 2}, []int{q.Quorum, q.Granted, q.Refused, q.Failed})
			for i, n := range s.Nodes {
				require.Equal(t, NodeError{Node: n.Node, Err: n.Err}, q.Nodes[i])
				require.Equal(t, i > 0, n.Err != nil)
			}
			time.Sleep(time.Second)
		}
		_, err := l.Inspect(t.Context(), "orders")
		require.EqualError(t, err, `redlock: inspect "orders": no quorum: 1 of 2 needed (failed: `+
			`10.0.0.2:6379: dial tcp: connection refused, 10.0.0.3:6379: dial tcp: connection refused)`)
	})
}

func TestInspectOfNodesThatAreAllHungEndsAtTheNodeTimeout(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithNodeTimeout(70 * time.Millisecond))
		w.all((*fakeNode).hang)
		begin := time.Now()
		s, err := l.Inspect(t.Context(), "orders")
		require.Equal(t, 70*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "a node's timeout is not the caller's")
		var q *QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, 70*time.Millisecond, q.Elapsed)
		require.Equal(t, 3, q.Failed)
		for _, n := range s.Nodes {
			require.Error(t, n.Err)
		}
	})
}

// Three of five have answered, so there is no error, and yet nobody can tell.
func TestAKeyIsNotKnownToBeHeldWhileMissingAnswersMightCompleteAQuorum(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		l := w.open()
		k := w.hold(l, "orders", time.Hour)
		time.Sleep(time.Millisecond)
		w.nodes[0].miniredis().Del("orders")
		w.nodes[3].hang()
		w.nodes[4].crash()
		s := w.inspected(l, "orders")
		require.False(t, s.Held)
		require.Empty(t, s.Token)
		require.Zero(t, s.TTL)
		require.Equal(t, k.Token(), s.Nodes[1].Token)
		w.nodes[3].resume()
		time.Sleep(3 * time.Second)
		require.True(t, w.inspected(l, "orders").Held)
	})
}

func TestAnEndedContextEndsInspect(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		ctx, cancel := context.WithCancel(t.Context())
		w.nodes[2].hang()
		time.AfterFunc(50*time.Millisecond, cancel)
		begin := time.Now()
		s, err := l.Inspect(ctx, "orders")
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		require.Nil(t, s)
		require.EqualError(t, err, `redlock: inspect "orders": context canceled`)
		require.ErrorIs(t, err, context.Canceled)

		s, err = l.Inspect(ctx, "before")
		require.Nil(t, s)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Millisecond)
		for _, f := range w.nodes {
			require.Empty(t, f.commands("before"), "nothing is sent for a caller who has left")
		}

		limited, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = l.Inspect(limited, "orders")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.nodes[2].resume() // and the worker tells nobody
		time.Sleep(3 * time.Second)
	})
}

func TestInspectRefusesAnEmptyKeyAndAClosedLocker(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open()
		s, err := l.Inspect(t.Context(), "")
		require.Nil(t, s)
		require.EqualError(t, err, "redlock: key is empty")

		w.nodes[2].hang()
		var closing sync.WaitGroup
		closing.Go(func() {
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, l.Close())
		})
		begin := time.Now()
		s = w.inspected(l, "orders")
		require.Equal(t, 200*time.Millisecond, time.Since(begin), "Close waits for it")
		require.NoError(t, s.Nodes[0].Err)
		closing.Wait()

		s, err = l.Inspect(t.Context(), "orders")
		require.Nil(t, s)
		require.ErrorIs(t, err, ErrClosed)
		require.EqualError(t, err, `redlock: inspect "orders": locker closed`)
	})
}

// What the workers tell after Inspect has returned must meet nothing that the caller reads.
func TestAnswersThatComeAfterInspectChangeNoState(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.openDefault()
		w.hold(l, "orders", time.Hour)
		w.nodes[1].mute()
		w.nodes[2].hang()
		s, err := l.Inspect(t.Context(), "orders")
		require.ErrorIs(t, err, ErrNoQuorum)
		want := slices.Clone(s.Nodes)
		w.all((*fakeNode).resume)
		for range 100 {
			time.Sleep(10 * time.Microsecond)
			require.Equal(t, want, s.Nodes)
		}
		time.Sleep(4 * time.Second)
		require.Equal(t, want, s.Nodes)
		require.True(t, w.inspected(l, "orders").Held)
	})
}

func TestAnInspectThatMeetsCloseIsRefusedOrComplete(t *testing.T) {
	for range 20 {
		inWorld(t, 3, func(t *testing.T, w *world) {
			l := w.open()
			k := w.hold(l, "orders", time.Hour)
			time.Sleep(time.Millisecond)
			var group sync.WaitGroup
			for i := range 40 {
				group.Go(func() {
					if i == 20 {
						require.NoError(t, l.Close())
						return
					}
					s, err := l.Inspect(t.Context(), "orders")
					if err != nil {
						require.ErrorIs(t, err, ErrClosed)
						require.Nil(t, s)
						return
					}
					for _, n := range s.Nodes {
						require.NoError(t, n.Err)
						require.Equal(t, k.Token(), n.Token)
					}
				})
			}
			group.Wait()
		})
	}
}
