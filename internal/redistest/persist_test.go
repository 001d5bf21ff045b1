package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestPersistentServerKeepsItsKeysOverAKillUnlessRestartedEmpty(t *testing.T) {
	ctx := t.Context()
	s := ForTest(t, 1, Persistent()...)[0]
	require.ErrorContains(t, s.RestartEmpty(), "still runs")
	require.NoError(t, client(t, s).Set(ctx, "kept", "1", 0).Err())
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart())
	require.Equal(t, "1", client(t, s).Get(ctx, "kept").Val())

	require.NoError(t, s.Kill())
	require.NoError(t, s.RestartEmpty())
	require.ErrorIs(t, client(t, s).Get(ctx, "kept").Err(), redis.Nil)
	require.NoError(t, s.Stop())
	require.NoDirExists(t, s.dir)
	require.ErrorContains(t, s.RestartEmpty(), s.Addr())
	require.NoDirExists(t, s.dir, "a stopped server leaves nothing behind")
}

func TestFlushedScriptsAreForgotten(t *testing.T) {
	ctx := t.Context()
	s := ForTest(t, 1)[0]
	c := client(t, s)
	sha, err := c.ScriptLoad(ctx, "return 1").Result()
	require.NoError(t, err)
	require.NoError(t, c.EvalSha(ctx, sha, nil).Err())
	require.NoError(t, s.FlushScripts())
	require.True(t, redis.HasErrorPrefix(c.EvalSha(ctx, sha, nil).Err(), "NOSCRIPT"))
	require.NoError(t, s.Kill())
	require.ErrorContains(t, s.FlushScripts(), "flush scripts "+s.Addr())

	locked := ForTest(t, 1, "--requirepass", "secret")[0]
	require.ErrorContains(t, locked.FlushScripts(), "NOAUTH")
}

func TestServerTellsWhatWasDoneToIt(t *testing.T) {
	s := ForTest(t, 1)[0]
	require.Error(t, s.SetClock(0, 1))
	require.NoError(t, s.FlushScripts())
	require.NoError(t, s.Kill())
	require.Error(t, s.Pause())
	require.NoError(t, s.RestartEmpty())
	require.Regexp(t, `^server `+s.Addr()+`: \+0s start, \S+ set clock to offset 0s, rate 1: it keeps the machine's time.*, `+
		`\S+ flush scripts, \S+ kill, \S+ pause: it does not run, \S+ restart empty$`, s.String())
}

func TestHistoryKeepsTheLastEvents(t *testing.T) {
	var h history
	for range historyLimit {
		h.note("early")
	}
	for range historyLimit {
		h.note("late")
	}
	require.Regexp(t, `^\(40 earlier\) \+\S+ late`, h.String())
	require.NotContains(t, h.String(), "early,")
}
