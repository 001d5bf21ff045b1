package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var (
	renews   = ScriptOf("renew")
	acquires = ScriptOf("acquire")
	releases = ScriptOf("release")
)

func number(i int64) Value      { return Value{Kind: Int, Int: i} }
func text(s string) Value       { return Value{Kind: Text, Text: s} }
func list(items ...Value) Value { return Value{Kind: List, List: items} }

const week = 7 * 24 * time.Hour

func TestTheCommandsOnTheWire(t *testing.T) {
	ttl := 1500*time.Millisecond + 999*time.Microsecond
	require.Equal(t, []any{"set", "orders", "me/x", "nx", "px", int64(1500)}, SetArgs("orders", "me/x", ttl))
	require.Equal(t, []any{"evalsha", renews.SHA, 1, "orders", "me/x", int64(1500), "1", "", int64(604800000)}, RenewArgs(renews, []any{"orders"}, "me/x", ttl, true, "", week))
	require.Equal(t, []any{"evalsha", renews.SHA, 4, "a", "b", "{a}:redlock-fence", "{b}:redlock-fence", "me/x", int64(1500), "", "17", int64(604800000)}, RenewArgs(renews, []any{"a", "b"}, "me/x", ttl, false, "17", week))
	require.Equal(t, []any{"evalsha", acquires.SHA, 2, "a", "b", "me/x", int64(1500), "", int64(604800000)}, AcquireArgs(acquires, []any{"a", "b"}, "me/x", ttl, "", week, Listing{}))
	require.Equal(t, []any{"evalsha", acquires.SHA, 2, "a", "{a}:redlock-fence", "me/x", int64(1500), "17", int64(604800000), "{a}:redlock-waiters", "redlock/me", "23", int64(30000)},
		AcquireArgs(acquires, []any{"a"}, "me/x", ttl, "17", week, Listing{"{a}:redlock-waiters", "redlock/me", 23}))
	require.Equal(t, []any{"evalsha", releases.SHA, 2, "a", "b", "me/x", "me/x"}, ReleaseAllArgs(releases, []any{"a", "b"}, "me/x"))
}

func TestReleasesTravelTogetherAndThoseThatConcernAListComeLastAndNameIt(t *testing.T) {
	together := []Release{
		{Key: "b", Token: "me/2"}, {Key: "e", Token: "me/5"},
		{Key: "a", Token: "me/1", Listed: true}, {Key: "{d}", Token: "me/4", Listed: true, Channel: "redlock/me"},
	}
	args := ReleaseArgs(nil, releases, together)
	require.Equal(t, []any{
		"evalsha", releases.SHA, 4, "b", "e", "a", "{d}", "me/2", "me/5", "me/1", "me/4",
		"{a}:redlock-waiters", "{d}:redlock-waiters", "", "redlock/me",
	}, args)
	require.Equal(t, string(AppendCommand(nil, args)), string(AppendReleases(nil, releases, together)))
	each, ok := SplitReleases(list(number(1), number(2)), 2)
	require.True(t, ok)
	require.Len(t, each, 2)
	for _, v := range []Value{list(number(1)), number(1), text("OK"), {}} {
		_, ok := SplitReleases(v, 2)
		require.False(t, ok)
	}
}

func TestEachGoodReplyIsReadAsTheTableSays(t *testing.T) {
	timed := func(o Outcome, left time.Duration) Result { return Result{Outcome: o, Timed: left >= 0, Left: left} }
	granted := func(fence, since int64) Result { return Result{Outcome: Done, Fence: fence, Since: since} }
	blocked := timed(OtherToken, 5*time.Millisecond)
	blocked.Blocked, blocked.Since, blocked.Holder = 1, 17, "me/x"
	endless := Result{Outcome: OtherToken, Holder: ""}
	longest := timed(OtherToken, Millis(math.MaxInt64))
	longest.Holder = "me/x"
	renewed := timed(Done, 1500*time.Millisecond)
	renewed.Fence = 7
	for _, c := range []struct {
		got, want Result
	}{
		{ReadSet(Value{Kind: Status, Text: "OK"}), Result{Outcome: Done}},
		{ReadSet(text("OK")), Result{Outcome: Done}},
		{ReadSet(Value{}), Result{Outcome: OtherToken}},
		{ReadAcquire(list(number(1), number(5), text("17")), 1), granted(5, 17)},
		{ReadAcquire(list(number(1), number(0), text("")), 1), granted(0, 0)},
		{ReadAcquire(list(number(1), number(MaxFence), text("")), 1), granted(MaxFence, 0)},
		{ReadAcquire(list(number(0), number(2), number(5), text("17"), text("me/x")), 2), blocked},
		{ReadAcquire(list(number(0), number(1), number(-1), text("0"), text("")), 2), endless},
		{ReadAcquire(list(number(0), number(1), number(-2), text(""), text("")), 2), endless},
		{ReadAcquire(list(number(0), number(1), number(math.MaxInt64), text(""), text("me/x")), 2), longest},
		{ReadRenewal(list(number(1), number(1500), number(7))), renewed},
		{ReadRenewal(list(number(2))), Result{Outcome: Healed}},
		{ReadRenewal(list(number(3))), Result{Outcome: Missing}},
		{ReadRenewal(list(number(0))), Result{Outcome: OtherToken}},
		{ReadRelease(number(0)), Result{Outcome: OtherToken}},
		{ReadRelease(number(1)), Result{Outcome: Done}},
		{ReadRelease(number(2)), Result{Outcome: Missing}},
		{ReadRelease(number(5)), Result{Outcome: Done, Woke: true}},
		{ReadRelease(number(6)), Result{Outcome: Missing, Woke: true}},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestAnyOtherReplyIsAFailureAndNeverAVote(t *testing.T) {
	for _, v := range []Value{
		text("ok"), text(""), number(1), {Kind: Failure, Text: "OK"}, list(), list(text("OK")),
	} {
		require.Equal(t, Unknown, ReadSet(v).Outcome, "%v", v)
	}
	for _, v := range []Value{
		{}, text("OK"), list(), list(number(1), number(-5), text("17")), list(number(1), number(5), number(5)),
		list(number(1), number(1), number(5), text("17")), list(number(2), number(5), text("17")),
		list(number(1), number(5), text("soon")), list(number(1), number(5), Value{}), list(number(1), number(MaxFence+1), text("")),
	} {
		require.Equal(t, Result{}, ReadAcquire(v, 2), "%v", v)
	}
	refusal := func(index, left, since, holder Value) Value { return list(number(0), index, left, since, holder) }
	for _, v := range []Value{
		list(number(0), number(1), number(5), text("17")),
		list(number(0), number(1), number(5), text("17"), text("me/x"), text("me/y")),
		refusal(number(1), number(5), text("17"), number(5)), refusal(number(1), number(5), text("17"), Value{}),
		refusal(number(1), text("soon"), text("17"), text("me/x")), refusal(number(1), number(-3), text("17"), text("me/x")),
	} {
		require.Equal(t, Result{}, ReadAcquire(v, 2), "%v", v)
	}
	for _, index := range []int64{0, 3, 99, -1, 1 << 40, math.MaxInt64, math.MinInt64} {
		require.Equal(t, Result{}, ReadAcquire(refusal(number(index), number(5), text("17"), text("me/x")), 2), index)
	}
	for _, since := range []string{"nonsense", "-1", "+17", "017", "9223372036854775808"} {
		require.Equal(t, Result{}, ReadAcquire(refusal(number(1), number(5), text(since), text("me/x")), 2), since)
	}
	for _, v := range []Value{
		{}, number(1), list(), list(number(1)), list(number(1), number(5)), list(number(1), number(5), number(-1)),
		list(number(1), text("5"), number(1)), list(number(2), number(2)), list(number(1), number(1), number(1), number(1), number(1)),
	} {
		require.Equal(t, Result{}, ReadRenewal(v), "%v", v)
	}
	for _, v := range []Value{{}, text("1"), number(3), number(4), number(7), number(-1), list(number(1))} {
		require.Equal(t, Result{}, ReadRelease(v), "%v", v)
	}
}

func TestMillisecondsThatNoDurationCanBeSaturate(t *testing.T) {
	for _, ms := range []int64{9000000000 * 1000, 9999999999 * 1000, math.MaxInt64} { // "for ever", as people write it
		require.Greater(t, Millis(ms), 140*365*24*time.Hour)
		require.Greater(t, Millis(ms)+Millis(ms), Millis(ms))
	}
	require.Zero(t, Millis(math.MinInt64))
	require.Zero(t, Millis(-1))
	require.Equal(t, time.Second, Millis(1000))
}

func TestOnlyErrorsOfTheNodeAreReplies(t *testing.T) {
	for _, err := range []error{
		redis.Nil, Error("ERR"), redis.ErrNoScript, fmt.Errorf("exec: %w", Error("LOADING")), errors.Join(io.EOF, Error("ERR")),
	} {
		require.True(t, IsReply(err), "%v", err)
	}
	for _, err := range []error{
		nil, io.EOF, context.DeadlineExceeded, redis.ErrClosed, redis.ErrPoolTimeout, errors.New("ERR looks like one"),
		&net.OpError{Op: "dial", Err: io.EOF}, &Unreached{Error("WRONGPASS")}, &Unreached{nil}, fmt.Errorf("exec: %w", &Unreached{Error("NOAUTH")}),
	} {
		require.False(t, IsReply(err), "%v", err)
	}
}

func TestExplainSaysWhatToDoAboutRepliesThatALockCannotWorkWith(t *testing.T) {
	for reply, want := range map[string]string{
		"READONLY You can't write against a read only replica.": "primary",
		"MOVED 3999 127.0.0.1:6381":                             "independent nodes",
		"CROSSSLOT Keys in request":                             "independent nodes",
		"CLUSTERDOWN Hash slot not served":                      "independent nodes",
		"NOAUTH Authentication required.":                       "put it into the node's URL",
		"WRONGPASS invalid username-password pair":              "check user and password",
		"NOPERM this user has no permissions":                   "EVALSHA",
		"WRONGTYPE Operation against a key":                     "something else than a lock",
		"FENCEFULL the next number of key 1 would be 2^53":      "redlock-fence",
		"OOM command not allowed":                               "out of memory",
		"LOADING Redis is loading the dataset in memory":        "still loading",
		"max number of clients reached":                         "maxclients",
		"DENIED Redis is running in protected mode":             "protected mode:",
	} {
		for _, err := range []error{
			Error(reply), Error("ERR " + reply), &Unreached{Error(reply)}, fmt.Errorf("exec: %w", Error(reply)),
			Error("ERR Error running script (call to f_1): @user_script:4: " + reply),
			Error("ERR Error running script (call to f_1): @user_script: 4: -" + reply),
		} {
			got := Explain(err)
			require.ErrorContains(t, got, reply)
			require.ErrorContains(t, got, want)
			require.ErrorIs(t, got, err)
			require.Equal(t, IsReply(err), IsReply(got), "advice does not change whose error it is")
			require.Equal(t, got.Error(), Explain(got).Error(), "said once")
		}
		require.Equal(t, errors.New(reply), Explain(errors.New(reply)), "not said by a node")
	}
	require.Len(t, advice, 13, "the table above has them all")
}

func TestExplainLeavesOtherErrorsAsTheyAre(t *testing.T) {
	for _, err := range []error{io.EOF, redis.ErrClosed, Error("ERR unknown command"), &net.OpError{Op: "dial", Err: io.EOF}, context.Canceled} {
		require.Equal(t, err, Explain(err))
	}
}

func TestADeadlineOfTheWorkerIsNotTakenForTheCallers(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, fmt.Errorf("read: %w", context.DeadlineExceeded),
		&Unreached{context.DeadlineExceeded}, errors.Join(Error("READONLY"), context.DeadlineExceeded),
	} {
		got := Explain(err)
		require.EqualError(t, got, "timed out")
		require.NotErrorIs(t, got, context.DeadlineExceeded)
	}
}
