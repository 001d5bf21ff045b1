package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// refuses checks that every call that takes a key refuses this one by name and sends nothing.
func refuses(t *testing.T, l *Locker, key string, parts ...string) {
	t.Helper()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"TryAcquire":    func() error { _, err := l.TryAcquire(ctx, key, time.Minute); return err },
		"Acquire":       func() error { _, err := l.Acquire(ctx, key, time.Minute); return err },
		"TryAcquireAll": func() error { _, err := l.TryAcquireAll(ctx, []string{"a", key}, time.Minute); return err },
		"AcquireAll":    func() error { _, err := l.AcquireAll(ctx, []string{"a", key}, time.Minute); return err },
		"Resume":        func() error { _, err := l.Resume(ctx, key, "token", time.Minute); return err },
		"Inspect":       func() error { _, err := l.Inspect(ctx, key); return err },
		"Do": func() error {
			return l.Do(ctx, key, time.Minute, func(context.Context, *Lock) error { return errors.New("it ran") })
		},
	} {
		err := call()
		requireNames(t, err, parts...)
		require.Less(t, len(err.Error()), 400, "%s: %v", name, err)
		if strings.HasSuffix(name, "All") {
			require.ErrorContains(t, err, "keys[1]")
		}
	}
}

func TestNoLockHasTheNameOfAKeyBesideALock(t *testing.T) {
	l := deafLocker(t, WithFencing())
	for _, key := range []string{
		"{k}:redlock-fence", "{k}:redlock-waiters", ":redlock-fence", "a{b}c:redlock-waiters", fenceName("{k}:1"), listName("k"),
	} {
		refuses(t, l, key, fmt.Sprintf("%q", key), "redlock keeps names that end in")
	}
	prefixed := deafLocker(t, WithKeyPrefix("app:redlock-"))
	refuses(t, prefixed, "fence", `"fence"`, `":redlock-fence"`)
	refuses(t, prefixed, "waiters", `"waiters"`, `":redlock-waiters"`)
	for _, n := range l.nodes {
		require.Empty(t, n.queue, "nothing is sent")
	}
	for _, key := range []string{"{k}:fence", "{k}:waiters", "redlock-fence", "{k}:redlock-fences", ":redlock-fence ", "k:Redlock-fence"} {
		require.NoError(t, l.cfg.checkNames([]string{key}), key)
	}
}

func TestALockNamedAsNumbersOnceWereIsLeftAlone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		l := w.open(WithFencing())
		victim := w.hold(l, "{k}:fence", time.Minute)
		k := w.hold(l, "k", time.Minute)
		time.Sleep(time.Second)
		require.NoError(t, k.Renew(t.Context(), time.Minute))
		require.NoError(t, k.Release(t.Context()))
		require.Equal(t, 3, w.count("{k}:fence", victim.Token()))
		require.NoError(t, victim.Renew(t.Context(), time.Minute))
	})
}

func TestALockHasAThousandKeysAtMost(t *testing.T) {
	l := deafLocker(t)
	keys := make([]string, 1_000_000)
	for i := range keys {
		keys[i] = fmt.Sprint("order:", i)
	}
	require.NoError(t, l.cfg.checkNames(keys[:1000]))
	for n, count := range map[int]string{1001: "1,001", 30_000: "30,000", 1_000_000: "1,000,000"} {
		begin := time.Now()
		_, err := l.TryAcquireAll(t.Context(), keys[:n], time.Minute)
		require.EqualError(t, err, "redlock: keys: "+count+" given; a lock has at most 1,000")
		require.Less(t, time.Since(begin), time.Second)
	}
}

// A thousand keys took half a million comparisons once.
func TestTheKeysOfALockAreComparedInLinearTime(t *testing.T) {
	long := strings.Repeat("x", 8000)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(long, i+1000) // alike but for the end
	}
	least := time.Hour
	for range 5 {
		begin := time.Now()
		require.NoError(t, checkKeys(keys))
		least = min(least, time.Since(begin))
	}
	require.Less(t, least, 20*time.Millisecond)
	keys[999] = keys[3]
	require.ErrorContains(t, checkKeys(keys), "keys[3] and keys[999]: both are")
	require.Less(t, len(checkKeys(keys).Error()), 300)
}

func TestTheLengthOfKeysIsBounded(t *testing.T) {
	l := deafLocker(t)
	long := strings.Repeat("k", 1<<20)
	require.NoError(t, l.cfg.checkNames([]string{long}))
	refuses(t, l, long+"k", "1,048,577 bytes long; a key has at most 1,048,576")
	refuses(t, deafLocker(t, WithKeyPrefix("app:")), long, "1,048,580 bytes long")
	var keys []string
	for i := range 9 {
		keys = append(keys, long[1:]+fmt.Sprint(i))
	}
	require.NoError(t, l.cfg.checkNames(keys[:8]))
	_, err := l.AcquireAll(t.Context(), keys, time.Minute)
	require.EqualError(t, err, "redlock: keys: 9,437,184 bytes together; the keys of a lock have at most 8,388,608")
}

func TestErrorsShortenLongKeysAndLongLists(t *testing.T) {
	require.Equal(t, `"a", "b\n"`, quoted([]string{"a", "b\n"}))
	hundred := strings.Repeat("h", 100)
	require.Equal(t, `"`+hundred+`"`, quotedKey(hundred))
	got := quotedKey("begin" + strings.Repeat("m", 1<<20) + "end")
	require.Regexp(t, `^"beginm{40}…m{42}end" \(1,048,584 bytes\)$`, got)
	for i := range 4 { // characters of three bytes are not cut
		got := quotedKey(strings.Repeat("x", i) + strings.Repeat("€", 100))
		require.NotContains(t, got, `\x`)
		require.True(t, utf8.ValidString(got))
	}
	require.Less(t, len(quotedKey(strings.Repeat("\xff", 1000))), 500)

	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	require.Equal(t, `"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9" and 990 more`, quoted(keys))
	require.NotContains(t, quoted(keys[:10]), "more")
	e := &QuorumError{Op: "acquire", Keys: keys, Quorum: 2, class: ErrHeld}
	require.Less(t, len(e.Error()), 200)
	for n, text := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_000_000: "1,000,000", 12_345: "12,345"} {
		require.Equal(t, text, grouped(n))
	}
}

// The node tells of a fifth key where the lock has two.
func TestAReplyWithAnIndexThatNoKeyHasIsAFailure(t *testing.T) {
	for index, class := range map[int64]error{1: ErrHeld, 2: ErrHeld, 0: ErrNoQuorum, 3: ErrNoQuorum, 99: ErrNoQuorum, -1: ErrNoQuorum, 1 << 40: ErrNoQuorum} {
		c := answeredCall(acquireAllOp, []any{int64(0), index, int64(5), "", "me/x"}, nil)
		c.calls[0].round.claim.keys = []any{"a", "b"}
		got := c.outcome(0, nil)
		if class == ErrHeld {
			require.Equal(t, refused, got.vote)
			require.EqualValues(t, index-1, got.blocked)
			continue
		}
		require.Equal(t, failed, got.vote)
		require.ErrorContains(t, got.err, "unexpected reply")
	}
}
