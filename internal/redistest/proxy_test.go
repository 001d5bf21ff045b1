package redistest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const soon = 3 * time.Second // a limit to wait for what comes in milliseconds

// proxied starts a server in this process, a proxy to it and a client with one open connection through that.
func proxied(t *testing.T) (*miniredis.Miniredis, *Proxy, *redis.Client) {
	m := miniredis.RunT(t)
	p := ProxyForTest(t, m.Addr())
	c := dial(t, p.URL())
	require.NoError(t, c.Ping(t.Context()).Err())
	return m, p, c
}

func raw(t *testing.T, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	return conn
}

// say sends commands in one write.
func say(t *testing.T, conn net.Conn, commands ...string) {
	_, err := io.WriteString(conn, encode(commands...))
	require.NoError(t, err)
}

func encode(commands ...string) string {
	var b strings.Builder
	for _, command := range commands {
		words := strings.Fields(command)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return b.String()
}

func hear(t *testing.T, conn net.Conn, want string) {
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func eventually(t *testing.T, met func() bool, what string) {
	t.Helper()
	require.Eventually(t, met, soon, time.Millisecond, what)
}

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
}

func TestProxyCarriesWhatItIsGiven(t *testing.T) {
	ctx := t.Context()
	_, p, c := proxied(t)
	require.Equal(t, "redis://"+p.Addr(), p.URL())
	big := strings.Repeat("0123456789", 100_000)
	require.NoError(t, c.Set(ctx, "big", big, 0).Err())
	require.Equal(t, big, c.Get(ctx, "big").Val())
	require.Equal(t, 1, p.Dials())
	_ = raw(t, p.Addr())
	eventually(t, func() bool { return p.Dials() == 2 }, "counts connections")
}

func TestServerThatIsDownResetsConnections(t *testing.T) {
	ctx := t.Context()
	m, p, c := proxied(t)
	m.Close()
	require.Error(t, c.Ping(ctx).Err())
	require.Error(t, c.Ping(ctx).Err())
	require.Contains(t, p.String(), "server not reached")
	require.NoError(t, m.Restart())
	require.NoError(t, c.Ping(ctx).Err())
}

func TestProxyBoundsItsConnections(t *testing.T) {
	_, p, _ := proxied(t)
	p.Hang()
	for range maxLinks + 5 {
		require.NoError(t, raw(t, p.Addr()).Close())
	}
	eventually(t, func() bool { return p.Dials() == maxLinks }, "takes as many as it may")
	p.Resume()
	eventually(t, func() bool { return p.Dials() == 1+maxLinks+5 && len(p.open()) == 1 }, "the others wait for their turn")
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	m := miniredis.RunT(t)
	alone := goleak.IgnoreCurrent()
	p, err := NewProxy(m.Addr())
	require.NoError(t, err)
	idle, hung := raw(t, p.Addr()), raw(t, p.Addr())
	say(t, idle, "PING")
	hear(t, idle, "+PONG\r\n")
	p.Hang()
	say(t, hung, slices.Repeat([]string{"PING"}, 10_000)...)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "a second Close does nothing")
	_, err = idle.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = net.Dial("tcp", p.Addr())
	require.Error(t, err)
	eventually(t, func() bool { return m.CurrentConnectionCount() == 0 }, "the server's side is closed")
	goleak.VerifyNone(t, alone)

	_, err = NewProxy("no port")
	require.ErrorContains(t, err, "no port")
}

func TestProxyTellsItsFaults(t *testing.T) {
	m, p, c := proxied(t)
	require.Contains(t, p.String(), "proxy "+p.Addr()+" to "+m.Addr()+": no fault; 1 dials")
	p.Delay(time.Millisecond, 0)
	p.Hang()
	p.Refuse()
	p.DropReplies()
	p.CutBefore()
	p.CutBefore()
	p.CutEachAfter()
	require.Contains(t, p.String(), "delays requests by 1ms and replies by 0s, hangs, refuses connections, "+
		"drops replies, cuts before the next 2 request, cuts after each request")
	p.Heal()
	p.CutBefore()
	require.Error(t, c.Ping(t.Context()).Err())
	require.Regexp(t, `: no fault; .* \+\S+ heal, \+\S+ cut before the next request, \+\S+ struck: cut before`, p.String())
}
