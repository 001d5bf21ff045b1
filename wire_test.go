package redlock

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// serverError is an error reply, as the client library reports one.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

var everyOp = []*operation{acquireOp, renewOp, releaseOp}

// answeredCall is a command with one call of op that came back with reply and err. What a node
// says to releases it says as a list.
func answeredCall(op *operation, reply any, err error) *command {
	c := &command{Cmd: redis.NewCmd(context.Background(), "x"), calls: []*call{{round: &round{op: op, claim: &claim{keys: []any{"x"}}}}}}
	if op == releaseOp && err == nil && reply != nil {
		reply = []any{reply}
	}
	c.SetVal(reply)
	if err != nil {
		c.SetErr(err)
	}
	return c
}

// goodReplies is all that a node may say, as operation:type:value.
var goodReplies = map[string]answer{
	"acquire:string:OK":  {vote: granted, place: present},
	"acquire:<nil>:null": {vote: refused, place: absent, err: errOtherToken},
	"renew:[int64]:[2]":  {vote: refused, place: present, err: errHealed},
	"renew:[int64]:[3]":  {vote: refused, place: absent, err: errMissing},
	"renew:[int64]:[0]":  {vote: refused, place: absent, err: errOtherToken},
	"release:int64:1":    {vote: granted, place: absent},
	"release:int64:2":    {vote: refused, place: absent, err: errMissing},
	"release:int64:0":    {vote: refused, place: absent, err: errOtherToken},
	"release:int64:5":    {vote: granted, place: absent, woke: true},
	"release:int64:6":    {vote: refused, place: absent, err: errMissing, woke: true},
}

func nameOf(op *operation, reply any) string {
	if reply == nil {
		return op.name + ":<nil>:null"
	}
	if list, ok := reply.([]any); ok {
		types := make([]string, len(list))
		for i, e := range list {
			types[i] = fmt.Sprintf("%T", e)
		}
		return fmt.Sprintf("%s:%v:%v", op.name, types, list)
	}
	return fmt.Sprintf("%s:%T:%v", op.name, reply, reply)
}

// wantedOf is what a reply should be read as. The life that a renewal found may be any.
func wantedOf(op *operation, reply any) (answer, bool) {
	name := nameOf(op, reply)
	var left, fence int64
	if n, err := fmt.Sscanf(name, "renew:[int64 int64 int64]:[1 %d %d]", &left, &fence); n == 2 && err == nil && left >= -2 && fence >= 0 && fence < 1<<53 {
		return answer{vote: granted, place: present, timed: left >= 0, left: millis(left), fence: fence}, true
	}
	want, good := goodReplies[name]
	return want, good
}

func TestEachGoodReplyIsReadAsTheTableSays(t *testing.T) {
	replies := map[string]any{
		"string:OK": "OK", "int64:0": int64(0), "int64:1": int64(1), "int64:2": int64(2), "int64:5": int64(5), "int64:6": int64(6),
		"[int64]:[0]": []any{int64(0)}, "[int64]:[1]": []any{int64(1)}, "[int64]:[2]": []any{int64(2)}, "[int64]:[3]": []any{int64(3)},
	}
	read := 0
	for _, op := range everyOp {
		for name, reply := range replies {
			want, good := goodReplies[op.name+":"+name]
			got := answeredCall(op, reply, nil).outcome(0, nil)
			if good {
				read++
				require.Equal(t, want, got, "%s %s", op.name, name)
			} else {
				require.Equal(t, failed, got.vote, "%s %s", op.name, name)
			}
		}
	}
	got := answeredCall(acquireOp, nil, redis.Nil).outcome(0, redis.Nil)
	require.Equal(t, goodReplies["acquire:<nil>:null"], got)
	require.Equal(t, len(goodReplies), read+1)

	for left, timed := range map[int64]bool{0: true, 1500: true, -1: false, -2: false} {
		got := answeredCall(renewOp, []any{int64(1), left, int64(7)}, nil).outcome(0, nil)
		want := answer{vote: granted, place: present, timed: timed, left: max(0, time.Duration(left)*time.Millisecond), fence: 7}
		require.Equal(t, want, got, "%d ms left", left)
	}
}

type oddReply struct{ inner any }

var oddReplies = []any{
	nil, "OK", "ok", "Ok", "OK ", " OK", "+OK", "OK\r\n", "O", "", "QUEUED", "1", "0", "2", "nil", "ERR", "1 ",
	int64(0), int64(1), int64(2), int64(3), int64(-1), int64(256), int64(1 << 32), int64(math.MinInt64), int64(math.MaxInt64),
	0, 1, 2, int8(1), int32(1), uint64(1), uint8(0), float64(0), float64(1), float64(2), float32(1), math.NaN(), math.Inf(1),
	true, false, big.NewInt(1), []byte("OK"), time.Duration(1), complex(1, 0), struct{}{}, oddReply{[]any{1}}, [1]any{[]any{1}},
	serverError("OK"), error(redis.Nil), io.EOF, granted, vote(0), func() {}, make(chan int), (*int)(nil),
	[]any{int64(2), int64(2)}, []any{int64(1), "1"}, []any{int64(1), int64(9), int64(9), int64(9)}, []any{int64(1), int64(9), int64(-9)}, []any{int64(1), int64(9)}, []any{[]any{1}, int64(1)}, []any{"1", int64(1)},
	[]any{}, []any{"OK"}, []any{int64(1)}, []any{[]any{nil}}, []any(nil), map[any]any{}, map[any]any{"ok": "OK"}, map[string]any{"OK": int64(1)},
}

// anyReply draws what no node should say, and now and then what it should.
func anyReply() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.SampledFrom(oddReplies),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
	)
	return rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) any {
		inner := rapid.SliceOfN(leaf, 0, 3).Draw(t, "inner")
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			return inner
		case 1:
			return []any{inner, inner}
		case 2:
			return map[any]any{"OK": inner, int64(1): int64(1)}
		default:
			return map[string]any{"value": inner}
		}
	}))
}

func checkReply(t require.TestingT, op *operation, reply any) {
	want, good := wantedOf(op, reply)
	got, ok := op.read(reply, 1)
	require.Equal(t, good, ok, "%s", nameOf(op, reply))
	require.Equal(t, want, got, "%s", nameOf(op, reply))

	var err error
	if reply == nil {
		err = redis.Nil
	}
	got = answeredCall(op, reply, err).outcome(0, nil)
	if good {
		require.Equal(t, want, got)
		return
	}
	require.Equal(t, failed, got.vote)
	require.Equal(t, maybe, got.place, "what a node means by it is not known")
	require.ErrorContains(t, got.err, "unexpected reply")
	require.ErrorContains(t, got.err, op.name)
	require.False(t, got.unsent)
	require.False(t, got.unanswered)
}

func checkAnyReply(t *rapid.T) {
	checkReply(t, rapid.SampledFrom(everyOp).Draw(t, "op"), anyReply().Draw(t, "reply"))
}

func TestAnyOtherReplyIsAFailureAndNeverAVote(t *testing.T) {
	for _, op := range everyOp {
		for _, reply := range oddReplies {
			checkReply(t, op, reply)
		}
	}
	rapid.Check(t, checkAnyReply)
}

// checkBounds reads what a node might send to trip up arithmetic, or an index.
func checkBounds(t *rapid.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 7), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 53, 1<<53 - 1}))
	part := rapid.OneOf(
		rapid.Map(number, func(n int64) any { return n }),
		rapid.Map(number, func(n int64) any { return fmt.Sprint(n) }),
		rapid.SampledFrom(oddReplies),
	)
	reply := rapid.OneOf(part, rapid.Map(rapid.SliceOfN(part, 0, 6), func(list []any) any { return list })).Draw(t, "reply")
	keys := rapid.IntRange(1, 5).Draw(t, "keys")
	for _, op := range []*operation{acquireOp, acquireAllOp, fenceOp, renewOp, resumeOp, releaseOp} {
		a, ok := op.read(reply, keys)
		if !ok {
			require.Equal(t, answer{}, a, "%s", op.name)
			continue
		}
		require.True(t, a.blocked >= 0 && a.blocked < keys, "key %d of %d", a.blocked, keys)
		require.True(t, a.left >= 0 && a.left+a.left >= a.left, "%v left", a.left)
		require.True(t, a.since >= 0 && a.fence >= 0 && a.fence < 1<<53, "%+v", a)
	}
	r := readingOf(reply, nil)
	require.True(t, r.left >= -1 && (r.left < 0 || r.left+r.left >= r.left) && r.fence >= 0, "%+v", r)
}

func TestNoReplyLeadsToAnIndexOrATimeOutOfRange(t *testing.T) { rapid.Check(t, checkBounds) }

func FuzzBounds(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkBounds)) }

func TestMillisecondsOfANodeNeverOverflow(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: time.Millisecond, 1 << 31: 1 << 31 * time.Millisecond,
	} {
		require.Equal(t, want, millis(n))
	}
	for _, n := range []int64{9000000000 * 1000, 9999999999 * 1000, math.MaxInt64} { // "for ever", as people write it
		require.Greater(t, millis(n), 140*365*24*time.Hour)
		require.Greater(t, millis(n)+millis(n), millis(n))
	}
}

func FuzzReply(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkAnyReply)) }

func TestAnErrorIsAFailureWhateverReplyComesWithIt(t *testing.T) {
	for _, op := range everyOp {
		for _, reply := range []any{nil, "OK", int64(0), int64(1), int64(2)} {
			for _, c := range []struct {
				err        error
				unanswered bool
			}{
				{serverError("ERR unknown command"), false},
				{fmt.Errorf("read: %w", serverError("BUSY")), false},
				{io.EOF, true},
				{io.ErrUnexpectedEOF, true},
				{context.DeadlineExceeded, true},
				{context.Canceled, true},
				{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
				{redis.ErrClosed, true},
				{redis.ErrPoolTimeout, true},
			} {
				got := answeredCall(op, reply, c.err).outcome(0, c.err)
				require.Equal(t, failed, got.vote)
				require.Equal(t, maybe, got.place)
				require.Equal(t, c.unanswered, got.unanswered, "%v", c.err)
				require.False(t, got.unsent)
				require.Error(t, got.err)
			}
		}
	}
}

func TestACallThatTheClientLeftAloneFailsWithTheErrorOfThePipeline(t *testing.T) {
	refused := serverError("WRONGPASS invalid username-password pair")
	for _, op := range everyOp {
		got := answeredCall(op, nil, nil).outcome(0, refused)
		require.Equal(t, failed, got.vote, "%s", op.name)
		require.True(t, got.unanswered)
		require.ErrorContains(t, got.err, "not connected: WRONGPASS")
		require.ErrorContains(t, got.err, "check user and password")
		require.ErrorIs(t, got.err, refused)

		got = answeredCall(op, nil, nil).outcome(0, nil)
		require.Equal(t, failed, got.vote, "%s", op.name)
		require.True(t, got.unanswered)
		require.Error(t, got.err)
	}
}

func TestAnUnsentCallSaysNothingOfTheToken(t *testing.T) {
	require.Equal(t, answer{vote: failed, err: io.EOF, unsent: true}, unsent(io.EOF))
}

func TestOnlyErrorsOfTheNodeAreReplies(t *testing.T) {
	for _, err := range []error{
		redis.Nil, serverError("ERR"), redis.ErrNoScript,
		fmt.Errorf("exec: %w", serverError("LOADING")), errors.Join(io.EOF, serverError("ERR")),
	} {
		require.True(t, isReply(err), "%v", err)
	}
	for _, err := range []error{
		nil, io.EOF, context.DeadlineExceeded, context.Canceled, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
		errors.New("ERR looks like one"), &net.OpError{Op: "dial", Err: io.EOF},
		&unreached{serverError("WRONGPASS")}, &unreached{nil}, fmt.Errorf("exec: %w", &unreached{serverError("NOAUTH")}),
	} {
		require.False(t, isReply(err), "%v", err)
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
		"OOM command not allowed":                               "out of memory",
		"FENCEFULL the next number":                             "clock",
		"LOADING Redis is loading the dataset in memory":        "still loading",
	} {
		for _, err := range []error{
			serverError(reply), serverError("ERR " + reply), &unreached{serverError(reply)},
			fmt.Errorf("exec: %w", serverError(reply)),
		} {
			got := explain(err)
			require.ErrorContains(t, got, reply)
			require.ErrorContains(t, got, want)
			require.ErrorIs(t, got, err)
			require.Equal(t, isReply(err), isReply(got), "advice does not change whose error it is")
		}
		require.Equal(t, errors.New(reply), explain(errors.New(reply)), "not said by a node")
	}
	require.Len(t, advice, 11, "the table above has them all")
}

func TestExplainLeavesOtherErrorsAsTheyAre(t *testing.T) {
	for _, err := range []error{io.EOF, redis.ErrClosed, serverError("ERR unknown command"), &net.OpError{Op: "dial", Err: io.EOF}, context.Canceled} {
		require.Equal(t, err, explain(err))
	}
}

func TestADeadlineOfTheWorkerIsNotTakenForTheCallers(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded,
		fmt.Errorf("read: %w", context.DeadlineExceeded),
		&unreached{context.DeadlineExceeded},
		errors.Join(serverError("READONLY"), context.DeadlineExceeded),
	} {
		got := explain(err)
		require.EqualError(t, got, "timed out")
		require.NotErrorIs(t, got, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:1") // does not dial any more
	require.Error(t, err)
	require.NotErrorIs(t, explain(err), context.DeadlineExceeded)
}

func TestNoCommandIsSentAgainByTheClient(t *testing.T) {
	var c redis.Cmder = answeredCall(acquireOp, "OK", nil)
	require.True(t, c.NoRetry())
}

func TestTheCommandsOnTheWire(t *testing.T) {
	ttl := 1500*time.Millisecond + 999*time.Microsecond
	require.Equal(t, []any{"set", "orders", "me/x", "nx", "px", int64(1500)}, acquireArgs("orders", "me/x", ttl))
	require.Equal(t, []any{"evalsha", renewScript.sha, 1, "orders", "me/x", int64(1500), "1", "", int64(604800000)}, renewArgs([]any{"orders"}, "me/x", ttl, true, "", defaultFenceLife))
	require.Equal(t, []any{"evalsha", renewScript.sha, 4, "a", "b", "{a}:redlock-fence", "{b}:redlock-fence", "me/x", int64(1500), "", "17", int64(3600000)}, renewArgs([]any{"a", "b"}, "me/x", ttl, false, "17", time.Hour))
	require.Equal(t, []any{"evalsha", acquireScript.sha, 2, "a", "b", "me/x", int64(1500), "", int64(604800000)}, acquireAllArgs([]any{"a", "b"}, "me/x", ttl, "", defaultFenceLife, listing{}))
	require.Equal(t, []any{"evalsha", acquireScript.sha, 2, "a", "{a}:redlock-fence", "me/x", int64(1500), "17", int64(60000), "{a}:redlock-waiters", "redlock/me", "23", int64(30000)},
		acquireAllArgs([]any{"a"}, "me/x", ttl, "17", time.Minute, listing{"{a}:redlock-waiters", "redlock/me", 23}))
	require.Equal(t, []any{"evalsha", releaseScript.sha, 2, "a", "b", "me/x", "me/x"}, releaseAllArgs([]any{"a", "b"}, "me/x"))
	require.Equal(t, []any{"evalsha", releaseScript.sha, 1, "orders", "me/x"}, releaseArgs(nil, []*call{{debt: &debt{key: "orders", token: "me/x"}}}))
}

func TestReleasesTravelTogetherAndAreReadOneByOne(t *testing.T) {
	calls := []*call{
		{debt: &debt{key: "a", token: "me/1"}},
		{round: &round{op: releaseOp, gate: noGate, claim: &claim{keys: []any{"b"}, token: "me/2"}}},
		{debt: &debt{key: "c", token: "me/3"}},
		{debt: &debt{key: "d", token: "me/4"}},
	}
	args := releaseArgs(nil, calls)
	require.Equal(t, []any{"evalsha", releaseScript.sha, 4, "a", "b", "c", "d", "me/1", "me/2", "me/3", "me/4"}, args)

	c := &command{Cmd: redis.NewCmd(context.Background(), args...), calls: calls}
	c.SetVal([]any{int64(1), int64(2), int64(0), "WRONGTYPE Operation against a key"})
	require.Equal(t, answer{vote: granted, place: absent}, c.outcome(0, nil))
	require.Equal(t, answer{vote: refused, place: absent, err: errMissing}, c.outcome(1, nil))
	require.Equal(t, answer{vote: refused, place: absent, err: errOtherToken}, c.outcome(2, nil))
	require.Equal(t, failed, c.outcome(3, nil).vote)
	require.ErrorContains(t, c.outcome(3, nil).err, "something else than a lock")

	for _, reply := range []any{[]any{int64(1), int64(1), int64(1)}, []any{}, int64(1), "OK"} { // not one for each
		c.SetVal(reply)
		for i := range calls {
			require.Equal(t, failed, c.outcome(i, nil).vote, "%v", reply)
		}
	}
}

func TestEveryScriptIsCutOutOfItsSectionAloneWithoutComments(t *testing.T) {
	for _, c := range []struct {
		script            luaScript
		first, has, lacks string
	}{
		{renewScript, "local n = ARGV[4]", "PEXPIRE", "'DEL'"},
		{releaseScript, "local keys, args", "'DEL'", "PEXPIRE"},
		{acquireScript, "local keys, args", "ZADD", "'DEL'"},
	} {
		require.Contains(t, c.script.body, c.has)
		require.NotContains(t, c.script.body, c.lacks)
		require.True(t, strings.HasPrefix(c.script.body, c.first), "the start of the section")
		require.Regexp(t, `\nreturn [{\w}, ]+\n?$`, c.script.body, "the end of the section")
		for line := range strings.Lines(c.script.body) {
			require.NotRegexp(t, `^\s*(--.*)?\s*$`, line, "a line that only travels")
			require.NotContains(t, line, "\r")
		}
	}
}

func TestTheNameOfAScriptIsTheSHA1OfWhatIsLoaded(t *testing.T) {
	for _, s := range allScripts {
		require.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(s.body))), s.sha)
		require.Len(t, s.sha, 40)
	}
}

func TestEverySectionIsLoaded(t *testing.T) {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^-- script: (.*)$`).FindAllStringSubmatch(scriptsLua, -1) {
		names = append(names, m[1])
	}
	require.Len(t, allScripts, len(names))
	for i, name := range names {
		require.Equal(t, allScripts[i], script(name))
	}
	require.PanicsWithValue(t, "redlock: scripts.lua has no section nonsense", func() { script("nonsense") })
	require.Panics(t, func() { script("rene") }, "the start of a name is not a name")
}
