package redistest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // tests fail dials on purpose
	goleak.VerifyTestMain(m)
}

func client(t *testing.T, s *Server) *redis.Client { return dial(t, s.URL()) }

func dial(t *testing.T, url string) *redis.Client {
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = 300 * time.Millisecond
	options.ReadTimeout = 300 * time.Millisecond
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServersAnswerAreDistinctAndGoneAfterStop(t *testing.T) {
	ctx := context.Background()
	servers := ForTest(t, 3)
	require.Len(t, URLs(servers), 3)
	seen := map[string]bool{}
	for _, s := range servers {
		require.NoError(t, client(t, s).Ping(ctx).Err())
		require.False(t, seen[s.Addr()], "an address served twice")
		seen[s.Addr()] = true
	}

	pid, dir := servers[0].PID(), servers[0].dir
	require.NotZero(t, pid)
	require.NoError(t, servers[0].Stop())
	require.NoError(t, servers[0].Stop(), "a second Stop does nothing")
	require.Zero(t, servers[0].PID())
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	if runtime.GOOS != "windows" {
		process, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.Error(t, process.Signal(syscall.Signal(0)), "the process is gone")
	}
	require.ErrorContains(t, servers[0].Restart(), servers[0].Addr())
	require.ErrorContains(t, servers[0].Pause(), servers[0].Addr())
}

func TestPausedServerHangsAndGoesOnAfterResume(t *testing.T) {
	ctx := context.Background()
	s := ForTest(t, 1)[0]
	c := client(t, s)
	require.NoError(t, c.Set(ctx, "kept", "1", 0).Err())
	s.PauseForTest(t)
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, c.Ping(ctx).Err(), &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, s.Resume())
	require.Equal(t, "1", c.Get(ctx, "kept").Val())
	require.NoError(t, s.Pause())
	require.NoError(t, s.Stop(), "a paused server can be stopped")
}

func TestKilledServerComesBackEmptyOnItsPort(t *testing.T) {
	ctx := context.Background()
	s := ForTest(t, 1)[0]
	c := client(t, s)
	require.NoError(t, c.Set(ctx, "lost", "1", 0).Err())
	addr := s.Addr()
	require.ErrorContains(t, s.Restart(), "still runs")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Kill(), "a second Kill does nothing")
	require.Error(t, c.Ping(ctx).Err())
	require.NoError(t, s.Restart())
	require.Equal(t, addr, s.Addr())
	require.ErrorIs(t, client(t, s).Get(ctx, "lost").Err(), redis.Nil)
}

func TestStartReportsWhatTheServerSaid(t *testing.T) {
	servers, err := Start(2, "--no-such-setting", "1")
	if errors.Is(err, ErrNoServer) {
		t.Skip(err)
	}
	require.Nil(t, servers)
	require.ErrorContains(t, err, "127.0.0.1:")
	require.ErrorContains(t, err, "no-such-setting")
}

func TestStartWithPasswordIsReady(t *testing.T) {
	s := ForTest(t, 1, "--requirepass", "secret")[0]
	err := client(t, s).Ping(context.Background()).Err()
	require.True(t, err != nil && strings.HasPrefix(err.Error(), "NOAUTH"), "got %v", err)
}

func TestTakenPortIsReportedAsTaken(t *testing.T) {
	servers := ForTest(t, 2)
	intruder := &Server{binary: servers[0].binary, addr: servers[1].addr, dir: t.TempDir()}
	require.ErrorIs(t, intruder.start(), errPortTaken)
	require.Zero(t, intruder.PID())
}

func TestNoServerOnPathIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(keeperAddress, "")
	_, err := Start(1)
	require.ErrorIs(t, err, ErrNoServer)
	_, err = Start(0)
	require.ErrorContains(t, err, "at least 1")
}
