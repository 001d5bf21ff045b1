package redlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// patient keeps a busy machine from being a finding.
var patient = redlock.WithNodeTimeout(2 * time.Second)

// checked is a Check that must not fail. It leaves no probe key on any of the servers.
func checked(t *testing.T, l *redlock.Locker, servers []*redistest.Server) *redlock.Report {
	t.Helper()
	r, err := l.Check(t.Context())
	require.NoError(t, err)
	probeless(t, servers, time.Second)
	return r
}

func probeless(t *testing.T, servers []*redistest.Server, within time.Duration) {
	t.Helper()
	for _, s := range servers {
		c := plainClient(t, s)
		require.Eventually(t, func() bool {
			keys, err := c.Keys(t.Context(), "*redlock-check:*").Result()
			return err == nil && len(keys) == 0
		}, within, 10*time.Millisecond, s.Addr())
	}
}

// faults lists what was found as "severity code n", where n is the position of the node, or -1; infos, and
// what is so on every test machine, are left out.
func faults(r *redlock.Report) (found []string) {
	for _, f := range r.Findings {
		if f.Severity > redlock.Info && f.Code != "same-host" && f.Code != "restarted-recently" {
			i := slices.IndexFunc(r.Nodes, func(n redlock.NodeReport) bool { return n.Node == f.Node })
			found = append(found, fmt.Sprint(f.Severity, " ", f.Code, " ", i))
		}
	}
	return found
}

func TestRealServersThatAreSoundHaveNoFaults(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3, redistest.Persistent()...)
	for _, l := range []*redlock.Locker{
		openURLs(t, redistest.URLs(servers), patient, redlock.WithRestartGuard(redlock.GuardOff)),
		openURLs(t, redistest.URLs(servers), patient, redlock.WithFencing()),
		newOverPlainClients(t, servers),
	} {
		for range 2 {
			r := checked(t, l, servers)
			require.Empty(t, faults(r))
			require.Equal(t, "same-host", r.Findings[0].Code)
			for i, n := range r.Nodes {
				require.NoError(t, n.Err)
				require.Equal(t, servers[i].Addr(), n.Node)
				require.Regexp(t, `^(redis|valkey) \d+\.\d+`, n.Version)
				require.Len(t, n.RunID, 40)
				require.Equal(t, "master", n.Role)
				require.Equal(t, "appendfsync always", n.Persistence)
				require.Equal(t, "noeviction", n.Eviction)
				require.Positive(t, n.Connections)
				require.Positive(t, n.MaxConnections)
				require.Zero(t, n.Replicas)
				require.Zero(t, n.MaxMemory)
				require.Less(t, n.Uptime, 5*time.Minute)
				require.GreaterOrEqual(t, n.Uptime, time.Duration(0))
				require.Positive(t, n.RoundTrip)
				require.LessOrEqual(t, n.ClockOffset.Abs(), n.ClockError+time.Millisecond)
			}
		}
	}
}

// newOverPlainClients makes a locker over clients with the client library's settings, which speak RESP3.
func newOverPlainClients(t *testing.T, servers []*redistest.Server) *redlock.Locker {
	t.Helper()
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, plainClient(t, s))
	}
	l, err := redlock.New(clients, patient)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestRealServersCheckFindsEveryFault(t *testing.T) {
	t.Parallel()
	one := func(i int, args ...any) func(*testing.T, []*redistest.Server) {
		return func(t *testing.T, servers []*redistest.Server) { plainly(t, servers[i:i+1], args...) }
	}
	for name, c := range map[string]struct {
		servers int
		args    []string
		plant   func(t *testing.T, servers []*redistest.Server)
		want    []string
	}{
		"a replica": {3, nil, func(t *testing.T, servers []*redistest.Server) {
			host, port, _ := strings.Cut(servers[0].Addr(), ":")
			plainly(t, servers[2:], "replicaof", host, port)
			require.Eventually(t, func() bool {
				info, err := plainClient(t, servers[0]).Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "connected_slaves:1")
			}, 30*time.Second, 50*time.Millisecond)
		}, []string{"critical replica 2", "warning has-replicas 0"}},
		"eviction": {3, nil, func(t *testing.T, servers []*redistest.Server) {
			plainly(t, servers[:2], "config", "set", "maxmemory-policy", "allkeys-lru")
			plainly(t, servers[1:], "config", "set", "maxmemory", "100mb")
		}, []string{"critical eviction 1", "warning eviction 0"}},
		"an even number": {4, nil, nil, []string{"warning even-nodes -1"}},
		"cluster mode":   {1, []string{"--cluster-enabled", "yes"}, nil, []string{"critical cluster-mode 0"}},
		"out of memory": {3, nil, one(1, "config", "set", "maxmemory", "1"),
			[]string{"critical probe-failed 1"}},
		"nearly all connections used": {3, nil, func(t *testing.T, servers []*redistest.Server) {
			plainly(t, servers[1:2], "config", "set", "maxclients", "60")
			use(t, servers[1], 52)
		}, []string{"warning connections-limit 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.ForTest(t, c.servers, c.args...)
			l := openURLs(t, redistest.URLs(servers), patient)
			require.NotContains(t, strings.Join(faults(checked(t, l, servers)), ";"), " 1", "before")
			if c.plant != nil {
				c.plant(t, servers)
			}
			require.Equal(t, c.want, faults(checked(t, l, servers)))
		})
	}
}

// use keeps n connections to a server open until the test ends.
func use(t *testing.T, s *redistest.Server, n int) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: n})
	t.Cleanup(func() { _ = c.Close() })
	for range n {
		conn := c.Conn()
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.Ping(t.Context()).Err())
	}
}

func TestRealServersCheckFindsAServerThatIsGivenTwice(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 2)
	proxy := redistest.ProxyForTest(t, servers[0].Addr())
	l := openURLs(t, append(redistest.URLs(servers), proxy.URL()), patient)
	r := checked(t, l, servers)
	require.Equal(t, []string{"critical duplicate-server 2"}, faults(r))
	require.Contains(t, r.Findings[0].Text, servers[0].Addr())
}

func TestRealServersCheckNamesAStoppedNodeAndTheLoserOfAQuorum(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers))
	for _, first := range []string{"warning", "critical"} {
		i := map[string]int{"warning": 1, "critical": 0}[first]
		servers[i].PauseForTest(t)
		for range 2 {
			begin := time.Now()
			r, err := l.Check(t.Context())
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 1500*time.Millisecond, "three node timeouts, and a busy machine")
			require.Contains(t, faults(r), fmt.Sprintf("%s unreachable %d", first, i))
			require.Error(t, r.Nodes[i].Err)
			require.NoError(t, r.Nodes[2].Err)
		}
	}
	for _, s := range servers[:2] {
		require.NoError(t, s.Resume())
	}
	require.Eventually(t, func() bool {
		r, err := l.Check(context.Background())
		return err == nil && !slices.ContainsFunc(r.Findings, func(f redlock.Finding) bool { return f.Code == "unreachable" })
	}, 10*time.Second, 20*time.Millisecond)
	checked(t, l, servers)
}

func TestRealServersCheckTellsOfMissingRightsAndShowsNoPassword(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 1)
	rights := []any{"~*", "&*", "+set", "+get", "+del", "+exists", "+pttl", "+pexpire", "+evalsha", "+script", "+info", "+publish", "+subscribe", "+config|get", "+time"}
	for name, c := range map[string]struct {
		change []any
		opts   []redlock.Option
		want   []string
	}{
		"enough":      {nil, nil, nil},
		"no-set":      {[]any{"-set"}, nil, []string{"critical no-key-permission 0"}},
		"no-evalsha":  {[]any{"-evalsha"}, nil, []string{"critical no-script-permission 0"}},
		"no-load":     {[]any{"-script"}, nil, []string{"critical no-script-permission 0"}},
		"no-pexpire":  {[]any{"-pexpire"}, nil, []string{"critical no-script-permission 0"}},
		"no-get":      {[]any{"-get"}, nil, []string{"critical no-script-permission 0"}},
		"no-del":      {[]any{"-del"}, nil, []string{"critical no-script-permission 0"}},
		"no-publish":  {[]any{"-publish"}, nil, []string{"warning no-publish-permission 0"}},
		"no-channel":  {[]any{"resetchannels"}, nil, []string{"warning no-publish-permission 0"}},
		"other-keys":  {[]any{"resetkeys", "~lock:*"}, nil, []string{"warning no-key-permission 0"}},
		"prefixed":    {[]any{"resetkeys", "~lock:*"}, []redlock.Option{redlock.WithKeyPrefix("lock:")}, nil},
		"no-info":     {[]any{"-info"}, nil, []string{"critical forgets-on-restart 0", "warning no-run-id 0"}},
		"no-config":   {[]any{"-config"}, nil, nil},
		"no-time":     {[]any{"-time"}, nil, nil},
		"nothing":     {[]any{"-@all"}, nil, []string{"critical no-key-permission 0", "critical no-script-permission 0", "warning no-publish-permission 0", "warning no-run-id 0"}},
		"wr0ng":       {nil, nil, []string{"critical unreachable 0"}},
		"no-password": {nil, nil, []string{"critical unreachable 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			plainly(t, servers, append(append([]any{"acl", "setuser", name, "on", ">s3cret" + name}, rights...), c.change...)...)
			password := "s3cret" + name
			if name == "wr0ng" {
				password = "wr0ngword"
			}
			url := fmt.Sprintf("redis://%s:%s@%s", name, password, servers[0].Addr())
			if name == "no-password" {
				plainly(t, servers, "acl", "setuser", "default", "resetpass", ">s3cretdefault")
				defer func() {
					c := redis.NewClient(&redis.Options{Addr: servers[0].Addr(), Password: "s3cretdefault"})
					defer c.Close()
					require.NoError(t, c.Do(t.Context(), "acl", "setuser", "default", "nopass").Err())
				}()
				url = servers[0].URL()
			}
			l := openURLs(t, []string{url}, append(c.opts, patient)...)
			r, err := l.Check(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, faults(r), "%v", r.Findings)
			text, err := json.Marshal(r.Findings)
			require.NoError(t, err)
			shown := fmt.Sprintf("%s %+v %v", text, r, r.Nodes[0].Err)
			require.NotContains(t, shown, "s3cret")
			require.NotContains(t, shown, "wr0ngword")
			switch name {
			case "no-password": // nor may the test look
			case "no-del":
				probeless(t, servers, 10*time.Second) // it expires
			default:
				probeless(t, servers, time.Second)
			}
		})
	}
}

func TestRealServersCheckFindsAClockThatIsOff(t *testing.T) {
	t.Parallel()
	servers := redistest.SkewableForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers), patient)
	require.NoError(t, servers[1].SetClock(5*time.Second, 1))
	r := checked(t, l, servers)
	require.Equal(t, []string{"warning clock-offset 1"}, faults(r))
	require.InDelta(t, 5, r.Nodes[1].ClockOffset.Seconds(), r.Nodes[1].ClockError.Seconds()+0.01)

	for _, s := range servers {
		require.NoError(t, s.SetClock(-time.Minute, 1))
	}
	r = checked(t, l, servers)
	require.Equal(t, []string{"warning clock-offset -1"}, faults(r), "this machine's")
}

func TestRealServersCheckTellsOfARestart(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers), patient, redlock.WithMaxTTL(10*time.Minute))
	of := func(r *redlock.Report, i int) (texts []string) {
		for _, f := range r.Findings {
			if f.Code == "restarted-recently" && f.Node == servers[i].Addr() {
				require.Equal(t, redlock.Info, f.Severity, "all nodes are young")
				texts = append(texts, f.Text)
			}
		}
		return texts
	}
	for i := range servers {
		texts := of(checked(t, l, servers), i)
		require.Len(t, texts, 1)
		require.Contains(t, texts[0], "a new deployment")
	}
	require.NoError(t, servers[1].Kill())
	require.NoError(t, servers[1].Restart())
	r := checked(t, l, servers)
	require.Empty(t, faults(r), "that its connection died is not held against it")
	require.Len(t, of(r, 1), 1)
	require.Contains(t, of(r, 1)[0], "while this process ran: the guard withholds")

	unguarded := openURLs(t, redistest.URLs(servers), patient, redlock.WithRestartGuard(redlock.GuardOff))
	require.Equal(t, []string{"critical forgets-on-restart 0", "critical forgets-on-restart 1", "critical forgets-on-restart 2"}, faults(checked(t, unguarded, servers)))
}

func TestRealServersCheckDisturbsNoLocks(t *testing.T) {
	t.Parallel()
	servers := redistest.ForTest(t, 3)
	l := openURLs(t, redistest.URLs(servers), patient)
	checked(t, l, servers) // and has met all nodes
	var cycles, failures atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 64 {
		workers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				k, err := l.TryAcquire(context.Background(), fmt.Sprint("k", i), 10*time.Second)
				if err == nil {
					err = errors.Join(k.Renew(context.Background(), 10*time.Second), k.Release(context.Background()))
				}
				if err != nil {
					failures.Add(1)
					t.Error(err)
					return
				}
				cycles.Add(1)
			}
		})
	}
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			for range 25 {
				r, err := l.Check(context.Background())
				if err != nil || len(faults(r)) > 0 {
					t.Errorf("%v %v", err, r)
				}
			}
		})
	}
	checks.Wait()
	stop()
	workers.Wait()
	t.Logf("100 checks during %d cycles", cycles.Load())
	require.Zero(t, failures.Load())
	require.Greater(t, cycles.Load(), int64(64))
	checked(t, l, servers)
	require.Eventually(t, func() bool {
		return slices.Equal(plainly(t, servers, "dbsize"), []any{int64(0), int64(0), int64(0)})
	}, 5*time.Second, 10*time.Millisecond)
}
