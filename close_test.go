package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCloseSendsAllReleasesThatAreOwed(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		const many = 1000
		l := w.open()
		var locks []*Lock
		for i := range many {
			locks = append(locks, w.hold(l, fmt.Sprint("order", i), time.Hour))
		}
		time.Sleep(10 * time.Millisecond)
		w.nodes[2].hang()
		for _, k := range locks[:10] {
			_ = k.Release(t.Context())
		}
		time.Sleep(5 * time.Second) // it is known to be down
		for _, k := range locks[10:] {
			require.NoError(t, k.Release(t.Context()))
		}
		require.GreaterOrEqual(t, l.Stats().Nodes[2].Debts, many-10)
		w.nodes[2].resume()
		require.NoError(t, l.Close())
		time.Sleep(time.Second)
		for i := range many {
			w.keyless(fmt.Sprint("order", i))
		}
	})
}
