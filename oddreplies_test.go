package redlock

import (
	"io"
	"math"
	"math/big"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// serverError is an error reply, as the client library reports one.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

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
