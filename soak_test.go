package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

const (
	soakWorkers   = 12
	soakNewcomers = 3 // of the workers
	soakLockers   = 4
	soakLeast     = 800 // ms of ttl
	soakMost      = 2000
)

var (
	soakKeys    = []string{"orders", "invoices", "migrations", "reports"}
	soakOptions = []redlock.Option{redlock.WithMaxTTL(soakMost * time.Millisecond)}
)

// TestSoak lets workers take, renew, release, outstay and abandon locks on real servers that are
// paused, killed, restarted empty and flushed meanwhile, and checks the history of who held what when.
// It runs for 20 s, or for SOAK_FOR ("5m").
func TestSoak(t *testing.T) {
	length := soakLength(t)
	servers := redistest.ForTest(t, 5)
	if !redistest.CanPause() {
		t.Skip("needs servers that can be paused, and Windows cannot")
	}
	lockers := make([]*redlock.Locker, soakLockers)
	for i := range lockers {
		lockers[i] = openURLs(t, redistest.URLs(servers), soakOptions...)
	}
	h := newHistory()
	faults := &saboteur{servers: servers, begin: h.begin}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("faults in order:\n%v", faults)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var running sync.WaitGroup
	for i := range soakWorkers {
		w := &soakWorker{t: t, h: h, index: i, locker: lockers[i%soakLockers]}
		if i < soakNewcomers {
			running.Go(func() { w.comeAndGo(ctx, redistest.URLs(servers)) })
		} else {
			running.Go(func() { w.run(ctx) })
		}
	}
	err := faults.run(ctx)
	cancel() // where the faults ended early
	running.Wait()
	require.NoError(t, err)

	grants, gap := len(h.grants), h.longestGap(length)
	checked, _ := h.overlaps()
	t.Logf("%v: %d grants: %s\nnot acquired: %s\nrenewals: %s; releases: %s\nfaults: %s\nlongest time without a grant %v; %d pairs of holders checked for overlap",
		length, grants, h.counted("ended: "), h.counted("not acquired: "), h.counted("renewal: "), h.counted("release: "),
		listed(faults.counts, ""), gap.Round(time.Millisecond), checked)
	require.NoError(t, h.check(soakWorkers))
	require.Greater(t, grants, max(0, int(2.5*length.Seconds()-10)), "too few grants to have seen anything") // a fault may take up much of a short run
	require.Less(t, gap, 10*time.Second)

	late := openURLs(t, redistest.URLs(servers), soakOptions...)
	for _, key := range soakKeys { // what was abandoned is free again, and no node is left out
		k, err := late.Acquire(t.Context(), key, time.Second, redlock.Wait(8*time.Second))
		require.NoError(t, err)
		require.NoError(t, k.Release(t.Context()))
	}
}

func soakLength(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("SOAK_FOR"); text != "" {
		length, err := time.ParseDuration(text)
		require.NoError(t, err, "SOAK_FOR")
		return length
	}
	if testing.Short() {
		return 3 * time.Second
	}
	return 20 * time.Second
}

// soakWorker takes one lock after the other and does with it what users do, and should not do.
type soakWorker struct {
	t      *testing.T
	h      *history
	index  int
	locker *redlock.Locker
}

// comeAndGo is run with a new locker for each lock, as of a process that has only just started.
// All five nodes may be young when it meets them, and no fresh deployment all the same.
func (w *soakWorker) comeAndGo(ctx context.Context, urls []string) {
	for ctx.Err() == nil {
		l, err := redlock.Open(urls, append(slices.Clone(soakOptions), redlock.WithRestartGuard(redlock.GuardStrict))...)
		if err != nil {
			w.t.Error(err)
			return
		}
		w.locker = l
		w.once(ctx)
		if err := l.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	}
}

func (w *soakWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.once(ctx)
	}
}

func (w *soakWorker) once(ctx context.Context) {
	plan := rand.IntN(100)
	ttl := between(soakLeast, soakMost)
	opts := []redlock.AcquireOption{redlock.Wait(between(100, 1500))}
	if plan < 8 {
		opts = append(opts, redlock.AutoRenew())
	}
	g := grant{worker: w.index, key: soakKeys[rand.IntN(len(soakKeys))], asked: w.h.now()}
	k, err := w.locker.Acquire(ctx, g.key, ttl, opts...)
	g.got = w.h.now()
	if err != nil {
		w.refused(ctx, err)
		return
	}
	g.token = k.Token()
	switch {
	case plan < 8: // renews itself
		w.release(k, g, w.hold(ctx, k, between(100, 2500)))
	case plan < 30:
		w.release(k, g, w.renew(ctx, k, ttl))
	case plan < 36: // outstays the validity, and releases only then
		seen := w.hold(context.Background(), k, 2*ttl)
		time.Sleep(between(0, 300))
		w.release(k, g, seen)
	case plan < 44: // crashes
		g.end, g.how = w.until(k), "abandoned"
		w.h.add(g)
	default:
		w.release(k, g, w.hold(ctx, k, between(1, 150)))
	}
}

// hold keeps k for d and returns when it was seen to end before; forever if it was not.
func (w *soakWorker) hold(ctx context.Context, k *redlock.Lock, d time.Duration) (ended time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-k.Done():
		return w.h.now()
	case <-timer.C:
	case <-ctx.Done():
	}
	return forever
}

const forever = time.Duration(1<<63 - 1)

// renew keeps k for a few renewals with ttls of different lengths.
func (w *soakWorker) renew(ctx context.Context, k *redlock.Lock, ttl time.Duration) (ended time.Duration) {
	for range 1 + rand.IntN(5) {
		if ended := w.hold(ctx, k, min(between(20, 500), ttl/2)); ended != forever || ctx.Err() != nil {
			return ended
		}
		err := k.Renew(ctx, between(soakLeast, soakMost))
		seen := w.h.now()
		switch {
		case err == nil:
			w.h.count("renewal: done")
		case errors.Is(err, redlock.ErrLost):
			w.h.count("renewal: lost")
			return seen
		case errors.Is(err, redlock.ErrNoQuorum):
			w.h.count("renewal: no quorum")
		case ctx.Err() == nil:
			w.t.Errorf("renew: %v", err)
		}
	}
	return forever
}

// release records the grant up to the moment that Release is called, if it lasted so long.
func (w *soakWorker) release(k *redlock.Lock, g grant, ended time.Duration) {
	called := w.h.now()
	err := k.Release(context.Background())
	g.end = min(called, ended, w.until(k)) // until stays where it was
	g.how = "released"
	switch {
	case err == nil:
		w.h.count("release: done")
	case errors.Is(err, redlock.ErrLost):
		g.how = "lost"
		w.h.count("release: lost")
	case errors.Is(err, redlock.ErrNoQuorum):
		w.h.count("release: no quorum")
	default:
		w.t.Errorf("release: %v", err)
	}
	w.h.add(g)
}

func (w *soakWorker) until(k *redlock.Lock) time.Duration { return k.Until().Sub(w.h.begin) }

func (w *soakWorker) refused(ctx context.Context, err error) {
	class := "ctx ended"
	switch {
	case !errors.Is(err, redlock.ErrNotAcquired):
		w.t.Errorf("acquire: %v", err)
		class = "other"
	case ctx.Err() != nil:
	case errors.Is(err, redlock.ErrHeld):
		class = "held"
	case errors.Is(err, redlock.ErrNoQuorum):
		class = "no quorum"
	default:
		w.t.Errorf("acquire: of no class: %v", err)
	}
	w.h.count("not acquired: " + class)
}

func TestTheSoaksHistoryFindsOverlaps(t *testing.T) {
	held := func(key string, asked, got, end time.Duration) grant {
		return grant{key: key, token: "owner/" + key + time.Duration(got).String() + "-12345678", asked: asked, got: got, end: end, how: "released"}
	}
	for name, test := range map[string]struct {
		grants []grant
		good   bool
	}{
		"one after the other":        {[]grant{held("a", 0, 1, 5), held("a", 2, 6, 9)}, true},
		"at once, on different keys": {[]grant{held("a", 0, 1, 5), held("b", 0, 1, 5)}, true},
		"asked while held":           {[]grant{held("a", 3, 6, 9), held("a", 0, 1, 5)}, true},
		"overlapping":                {[]grant{held("a", 0, 1, 5), held("a", 2, 4, 9)}, false},
		"one within another":         {[]grant{held("a", 0, 1, 9), held("a", 2, 3, 4)}, false},
		"within the last but one":    {[]grant{held("a", 0, 1, 9), held("a", 1, 10, 11), held("a", 2, 3, 4), held("a", 2, 5, 6)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"TMPDIR", "TMP"} { // on Unix, on Windows
				t.Setenv(name, t.TempDir()) // for the picture
			}
			h := newHistory()
			h.grants = test.grants
			err := h.check(1)
			require.Equal(t, test.good, err == nil, "%v", err)
		})
	}
}
