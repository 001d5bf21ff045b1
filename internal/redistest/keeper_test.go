package redistest

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// keeping makes this process the keeper of its own servers.
func keeping(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a keeper runs below wine, not in it")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv(requireServers) != "1" {
		t.Skip(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- Keep(listener, t.TempDir()) }()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
	})
	t.Setenv(keeperAddress, listener.Addr().String())
}

func TestAKeptServerDoesWhatOneOfOurOwnDoes(t *testing.T) {
	keeping(t)
	ctx := t.Context()
	s := ForTest(t, 1, Persistent()...)[0]
	c := client(t, s)
	require.NoError(t, c.Set(ctx, "kept", "1", 0).Err())
	require.NotZero(t, s.PID())

	s.PauseForTest(t)
	requireTimeout(t, c.Ping(ctx).Err())
	require.NoError(t, s.Resume())
	require.Equal(t, "1", c.Get(ctx, "kept").Val())

	require.NoError(t, s.Pause())
	require.NoError(t, s.Kill(), "a paused one too")
	require.Zero(t, s.PID())
	require.Error(t, c.Ping(ctx).Err())
	require.ErrorContains(t, s.Pause(), "it does not run")
	require.NoError(t, s.Restart())
	require.Equal(t, "1", client(t, s).Get(ctx, "kept").Val())
	require.NoError(t, s.Kill())
	require.NoError(t, s.RestartEmpty())
	require.ErrorIs(t, client(t, s).Get(ctx, "kept").Err(), redis.Nil)
}

func TestAKeptServerThatDoesNotStartTellsWhatItSaid(t *testing.T) {
	keeping(t)
	servers := ForTest(t, 1)
	intruder := &Server{addr: servers[0].addr, dir: t.TempDir()}
	require.ErrorIs(t, intruder.start(), errPortTaken)
	_, err := Start(1, "--no-such-setting", "1")
	require.ErrorContains(t, err, "exit status 1")
	require.ErrorContains(t, err, "no-such-setting")
}

func TestAKeptServerEndsWithTheConnectionOfWhoWantedIt(t *testing.T) {
	keeping(t)
	conn, err := net.Dial("tcp", os.Getenv(keeperAddress))
	require.NoError(t, err)
	port, err := freePort()
	require.NoError(t, err)
	_, portText, err := net.SplitHostPort(address(port))
	require.NoError(t, err)
	_, err = conn.Write([]byte(`["--port","` + portText + `","--bind","127.0.0.1","--save",""]`))
	require.NoError(t, err)
	answers := func() bool {
		answer, err := ask(address(port), "PING")
		return err == nil && answer != ""
	}
	eventually(t, answers, "it runs")
	require.NoError(t, conn.Close())
	eventually(t, func() bool { return !answers() }, "it is gone")
}

func TestWithoutItsKeeperAServerCountsAsEnded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := listener.Accept()
		_, _ = conn.Write([]byte(`{"pid":7}`))
		accepted <- conn
	}()
	p, err := startKept(listener.Addr().String(), nil)
	require.NoError(t, err)
	require.Equal(t, 7, p.pid)
	require.True(t, p.running())
	require.NoError(t, (<-accepted).Close())
	<-p.exited
	require.ErrorContains(t, p.failure(), "the keeper is gone")
	require.NoError(t, p.kill())
	require.ErrorContains(t, p.control(toSuspend), "it has ended")

	require.NoError(t, listener.Close())
	_, err = startKept(listener.Addr().String(), nil)
	require.ErrorContains(t, err, keeperAddress)
}

func TestPathsOfWineAreLookedUpInItsDrives(t *testing.T) {
	for path, want := range map[string]string{
		`C:\users\root\Temp\redistest-1`: "/prefix/dosdevices/c:/users/root/Temp/redistest-1",
		`z:\tmp\key.pem`:                 "/prefix/dosdevices/z:/tmp/key.pem",
		`C:`:                             `C:`,
		"--save":                         "--save",
		"":                               "",
		">other#pass":                    ">other#pass",
		`secret\c:\word`:                 `secret\c:\word`,
	} {
		require.Equal(t, want, below(path, "/prefix/dosdevices"))
	}
}
