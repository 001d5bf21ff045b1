package wire

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyBound draws what a node might send to trip up arithmetic, or an index.
func anyBound() *rapid.Generator[Value] {
	ints := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 7), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 53, 1<<53 - 1}))
	part := rapid.OneOf(
		rapid.Map(ints, number),
		rapid.Map(ints, func(n int64) Value { return text(fmt.Sprint(n)) }),
		rapid.Map(rapid.String(), text),
		rapid.SampledFrom([]Value{{}, {Kind: Status, Text: "OK"}, {Kind: Failure, Text: "ERR no"}, list(), list(number(1))}),
	)
	return rapid.OneOf(part, rapid.Map(rapid.SliceOfN(part, 0, 6), func(items []Value) Value { return list(items...) }))
}

func checkBounds(t *rapid.T) {
	v, keys := anyBound().Draw(t, "reply"), rapid.IntRange(1, 5).Draw(t, "keys")
	for _, r := range []Result{ReadSet(v), ReadAcquire(v, keys), ReadRenewal(v), ReadRelease(v)} {
		if r.Outcome == Unknown {
			require.Equal(t, Result{}, r)
		}
		require.True(t, r.Blocked >= 0 && r.Blocked < keys, "key %d of %d", r.Blocked, keys)
		require.True(t, r.Left >= 0 && r.Left+r.Left >= r.Left, "%v left", r.Left)
		require.True(t, r.Since >= 0 && r.Fence >= 0 && r.Fence <= MaxFence, "%+v", r)
	}
}

func TestNoReplyLeadsToAnIndexOrATimeOutOfRange(t *testing.T) { rapid.Check(t, checkBounds) }

func FuzzBounds(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkBounds)) }
