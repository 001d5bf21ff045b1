package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var allClasses = []error{ErrNotAcquired, ErrHeld, ErrNoQuorum, ErrLost, ErrReleased, ErrClosed}

func TestErrHeldAndErrNoQuorumAreErrNotAcquiredAndNoOtherClassIsAnother(t *testing.T) {
	wider := map[error]error{ErrHeld: ErrNotAcquired, ErrNoQuorum: ErrNotAcquired}
	for _, err := range allClasses {
		for _, class := range allClasses {
			want := err == class || wider[err] == class
			require.Equal(t, want, errors.Is(err, class), "%v is %v", err, class)
			require.Equal(t, want, errors.Is(fmt.Errorf("%w", err), class), "%v is %v", err, class)
			require.Equal(t, want, errors.Is(&QuorumError{class: err}, class), "%v is %v", err, class)
		}
	}
}

func TestTheTextOfAQuorumErrorNamesOperationReasonVotesAndNodes(t *testing.T) {
	ioTimeout := errors.New("i/o timeout")
	for _, c := range []struct {
		name string
		err  *QuorumError
		want string
	}{
		{"held", &QuorumError{
			Op: "acquire", Keys: []string{"orders"}, Quorum: 2, Refused: 2, Failed: 1,
			Nodes: []NodeError{{"a:1", errOtherToken}, {"b:1", errOtherToken}, {"c:1", ioTimeout}},
			class: ErrHeld,
		}, `redlock: acquire "orders": the key is held: 0 of 2 needed (refused: a:1, b:1; failed: c:1: i/o timeout)`},
		{"no quorum", &QuorumError{
			Op: "acquire", Keys: []string{"orders"}, Quorum: 3, Granted: 2, Refused: 1, Failed: 2,
			Nodes: []NodeError{{"a:1", nil}, {"b:1", errOtherToken}, {"c:1", ioTimeout}, {"d:1", errors.New("connection refused")}, {"e:1", nil}},
			class: ErrNoQuorum,
		}, `redlock: acquire "orders": no quorum: 2 of 3 needed (refused: b:1; failed: c:1: i/o timeout, d:1: connection refused)`},
		{"cancelled", &QuorumError{
			Op: "acquire", Keys: []string{"orders"}, Quorum: 2, Granted: 1,
			Nodes: []NodeError{{"a:1", nil}, {"b:1", errUnheard}, {"c:1", errUnheard}},
			class: ErrNoQuorum, cause: context.Canceled,
		}, `redlock: acquire "orders": context canceled: no quorum: 1 of 2 needed`},
		{"not asked", &QuorumError{
			Op: "acquire", Keys: []string{"orders"}, Quorum: 2, class: ErrNotAcquired, cause: ErrClosed,
		}, `redlock: acquire "orders": locker closed: no node was asked`},
		{"too late", &QuorumError{
			Op: "acquire", Keys: []string{"orders"}, Quorum: 1, Granted: 1, Nodes: []NodeError{{"a:1", nil}},
			class: ErrNoQuorum, cause: &tooLateError{312_345_678, 300 * time.Millisecond},
		}, `redlock: acquire "orders": answered after 312ms of a 300ms ttl: 1 of 1 needed`},
		{"renewal of healed nodes", &QuorumError{
			Op: "renew", Keys: []string{"orders"}, Quorum: 2, Refused: 3,
			Nodes: []NodeError{{"a:1", errHealed}, {"b:1", errHealed}, {"c:1", errOtherToken}},
			class: ErrLost,
		}, `redlock: renew "orders": lock lost: 0 of 2 needed (refused: c:1; not holding: a:1: had lost the key; set again, b:1: had lost the key; set again)`},
		{"release found nothing", &QuorumError{
			Op: "release", Keys: []string{"orders"}, Quorum: 2, Granted: 1, Refused: 2,
			Nodes: []NodeError{{"a:1", nil}, {"b:1", errMissing}, {"c:1", errOtherToken}},
			class: ErrLost,
		}, `redlock: release "orders": lock lost: 1 of 2 needed (refused: c:1; not holding: b:1: did not have the key)`},
		{"release not confirmed", &QuorumError{
			Op: "release", Keys: []string{"orders"}, Quorum: 2, Failed: 2,
			Nodes: []NodeError{{"a:1", ioTimeout}, {"node 1", io.EOF}, {"c:1", errUnheard}},
			class: ErrNoQuorum,
		}, `redlock: release "orders": no quorum: 0 of 2 needed (failed: a:1: i/o timeout, node 1: EOF)`},
		{"several keys with odd characters", &QuorumError{
			Op: "acquire", Keys: []string{"a b", "c\n"}, Quorum: 1, class: ErrHeld, Refused: 1,
			Nodes: []NodeError{{"a:1", errOtherToken}},
		}, `redlock: acquire "a b", "c\n": the key is held: 0 of 1 needed (refused: a:1)`},
		{"zero value", &QuorumError{}, `redlock:  : no node was asked`},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, c.err, c.want) })
	}
}

func TestTheClassOfAQuorumErrorIsThatOfItsOperation(t *testing.T) {
	for _, c := range []struct {
		op      *operation
		blocked error
	}{{acquireOp, ErrHeld}, {renewOp, ErrLost}, {releaseOp, ErrLost}} {
		for _, votes := range []struct {
			said string
			want error
		}{{"rr", c.blocked}, {"ff", ErrNoQuorum}, {"rfg", ErrNoQuorum}, {"rfr", c.blocked}} {
			r := deafRound(t, c.op, 3, nil)
			r.launch()
			for i, v := range []byte(votes.said) {
				r.answer(i, votersAnswers[v])
			}
			if r.verdict == pending {
				r.expire(time.Second)
			}
			e := r.failure([]string{"orders"})
			for _, class := range []error{ErrHeld, ErrLost, ErrNoQuorum} {
				require.Equal(t, class == votes.want, errors.Is(e, class), "%s of %s is %v", c.op.name, votes.said, class)
			}
			require.Equal(t, c.op.name, e.Op)
			require.Equal(t, []string{"orders"}, e.Keys)
			require.Equal(t, 2, e.Quorum)
			require.Equal(t, time.Second, e.TTL)
			require.Len(t, e.Nodes, 3)
			for i, n := range e.Nodes {
				require.Equal(t, fmt.Sprintf("n%d:1", i), n.Node)
			}
		}
	}
}

func TestAQuorumErrorIsItsClassAndItsCauseButNoneOfItsNodesErrors(t *testing.T) {
	timeout := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	inNodes := []error{context.DeadlineExceeded, context.Canceled, timeout, io.EOF, os.ErrDeadlineExceeded, ErrClosed, ErrReleased}
	e := &QuorumError{Op: "acquire", class: ErrNoQuorum}
	for _, err := range inNodes {
		e.Nodes = append(e.Nodes, NodeError{"a:1", fmt.Errorf("dial: %w", err)})
	}
	wrapped := fmt.Errorf("job: %w", e)
	for _, err := range inNodes {
		require.NotErrorIs(t, wrapped, err)
	}
	_, isTimeout := errors.AsType[net.Error](wrapped)
	require.False(t, isTimeout)
	_, isNode := errors.AsType[NodeError](wrapped)
	require.False(t, isNode)
	found, ok := errors.AsType[*QuorumError](wrapped)
	require.True(t, ok)
	require.Same(t, e, found)

	e.cause = context.DeadlineExceeded
	require.ErrorIs(t, wrapped, context.DeadlineExceeded, "this one is the caller's")
	require.ErrorIs(t, wrapped, ErrNoQuorum)
	require.ErrorIs(t, wrapped, ErrNotAcquired)
	require.NotErrorIs(t, wrapped, ErrHeld)
}

func TestTheUnwrappedErrorsOfAQuorumErrorAreNeverNil(t *testing.T) {
	require.Empty(t, (&QuorumError{}).Unwrap())
	require.Equal(t, []error{ErrHeld}, (&QuorumError{class: ErrHeld}).Unwrap())
	require.Equal(t, []error{io.EOF}, (&QuorumError{cause: io.EOF}).Unwrap())
	require.Equal(t, []error{ErrHeld, io.EOF}, (&QuorumError{class: ErrHeld, cause: io.EOF}).Unwrap())
}

func TestANodeErrorIsItsCause(t *testing.T) {
	e := NodeError{Node: "10.0.0.1:6379", Err: fmt.Errorf("read: %w", io.EOF)}
	require.EqualError(t, e, "10.0.0.1:6379: read: EOF")
	require.ErrorIs(t, e, io.EOF)
	require.NoError(t, NodeError{Node: "a:1"}.Unwrap())
}

func TestDurationsForPeopleHaveAboutThreeDigits(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0:                         "0s",
		1:                         "1ns",
		999:                       "999ns",
		1234:                      "1.23µs",
		9996:                      "10µs",
		312_345_678:               "312ms",
		1_234_567_890:             "1.23s",
		59_960 * time.Millisecond: "1m0s",
		61_234 * time.Millisecond: "1m1.2s",
	} {
		require.Equal(t, want, round3(in).String(), "%d", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64-int64(time.Hour)).Draw(t, "d"))
		got := round3(d)
		require.LessOrEqual(t, (got - d).Abs(), d/200+1, "%v for %v", got, d)
		require.Equal(t, got, round3(got), "rounded twice")
	})
}
