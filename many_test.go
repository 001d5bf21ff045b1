package redlock

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heapNow returns the live heap and the goroutines.
func heapNow() (bytes uint64, goroutines int) {
	runtime.GC()
	runtime.GC() // the second frees what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

func TestRealServersTenThousandLocksRenewThemselves(t *testing.T) {
	locks, ttl := 10_000, 4*time.Second
	if raceDetector {
		locks = 2_000 // it costs several times the CPU; .ci/run runs the whole number without it
	}
	r := startReal(t, 5)
	l := r.open()
	held := make([]*Lock, locks)
	_, err := l.TryAcquire(t.Context(), "one", time.Minute, AutoRenew())
	require.NoError(t, err)
	bytesBefore, goroutinesBefore := heapNow()

	var wg sync.WaitGroup
	for c := range 100 {
		wg.Go(func() {
			for i := c; i < locks; i += 100 {
				k, err := l.TryAcquire(t.Context(), fmt.Sprint("k", i), ttl, AutoRenew())
				require.NoError(t, err)
				held[i] = k
			}
		})
	}
	wg.Wait()
	renewed := l.Stats().Renewed
	require.Eventually(t, func() bool { return l.Stats().Renewed >= renewed+3*uint64(locks) }, 5*ttl, 10*time.Millisecond)
	bytes, goroutines := heapNow()
	each := (int64(bytes) - int64(bytesBefore)) / int64(locks)
	s := l.Stats()
	t.Logf("%d bytes of heap each, %d goroutines more than for one lock, %d renewals, %d failed, %d lost",
		each, goroutines-goroutinesBefore, s.Renewed, s.Failed, s.Lost)
	require.LessOrEqual(t, goroutines-goroutinesBefore, 50)
	require.Zero(t, s.Lost)
	if !raceDetector { // which has a heap of its own beside ours
		require.Less(t, each, int64(3000))
	}
	for _, k := range held {
		require.NoError(t, k.Err())
	}
}
