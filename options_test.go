package redlock

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

// Nothing listens there: should a test send anything after all, it reaches nobody.
const closedPort = "127.0.0.1:1"

func requireNames(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

func TestEveryOptionOutOfRangeIsAnErrorThatNamesItAndItsRange(t *testing.T) {
	const year = "8784h0m0s"
	for _, c := range []struct {
		name  string
		bad   Option
		parts []string
	}{
		{"smaller factor", WithDrift(0.0099, 2*time.Millisecond), []string{"WithDrift", "factor 0.0099", "0.01 ≤ factor < 1"}},
		{"factor 1", WithDrift(1, 2*time.Millisecond), []string{"WithDrift", "factor 1 ", "0.01 ≤ factor < 1"}},
		{"negative factor", WithDrift(-1, 2*time.Millisecond), []string{"WithDrift", "factor -1", "factor < 1"}},
		{"factor not a number", WithDrift(math.NaN(), 2*time.Millisecond), []string{"WithDrift", "NaN", "factor < 1"}},
		{"infinite factor", WithDrift(math.Inf(1), 2*time.Millisecond), []string{"WithDrift", "+Inf", "factor < 1"}},
		{"smaller constant", WithDrift(0.01, 2*time.Millisecond-1), []string{"WithDrift", "constant 1.999999ms", "2ms … " + year}},
		{"negative constant", WithDrift(0.01, -time.Second), []string{"WithDrift", "constant -1s", "2ms … " + year}},
		{"huge constant", WithDrift(0.01, math.MaxInt64), []string{"WithDrift", "constant", "2ms … " + year}},
		{"no node timeout", WithNodeTimeout(0), []string{"WithNodeTimeout", "0s", "1ms … " + year}},
		{"short node timeout", WithNodeTimeout(time.Millisecond - 1), []string{"WithNodeTimeout", "999.999µs", "1ms … " + year}},
		{"negative node timeout", WithNodeTimeout(-1), []string{"WithNodeTimeout", "-1ns", "1ms … " + year}},
		{"huge node timeout", WithNodeTimeout(maxTTL + 1), []string{"WithNodeTimeout", "1ms … " + year}},
		{"no base", WithBackoff(0, time.Second), []string{"WithBackoff", "base 0s", "below 1ms"}},
		{"negative base", WithBackoff(-time.Second, time.Second), []string{"WithBackoff", "base -1s", "below 1ms"}},
		{"base above max", WithBackoff(2*time.Second, time.Second), []string{"WithBackoff", "max 1s", "base (2s) … " + year}},
		{"huge max", WithBackoff(time.Second, math.MaxInt64), []string{"WithBackoff", "max", "base (1s) … " + year}},
		{"fence life without fences", WithFenceLife(time.Hour), []string{"WithFenceLife", "1h0m0s", "without WithFencing"}},
		{"negative wait", WithWait(-1), []string{"WithWait", "-1ns", "0 (no limit) … 8784h0m0s"}},
		{"empty owner", WithOwner(""), []string{"WithOwner", `""`, "non-empty, without spaces and control characters"}},
		{"owner with space", WithOwner("a b"), []string{"WithOwner", `"a b"`, "without spaces"}},
		{"owner with newline", WithOwner("a\nb"), []string{"WithOwner", `"a\nb"`, "control characters"}},
		{"owner with NUL", WithOwner("\x00"), []string{"WithOwner", `"\x00"`, "control characters"}},
		{"owner with DEL", WithOwner("a\x7f"), []string{"WithOwner", "control characters"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newConfig([]Option{c.bad})
			requireNames(t, err, c.parts...)

			l, fromOpen := Open([]string{"redis://" + closedPort}, WithWait(time.Second), c.bad)
			require.Equal(t, err, fromOpen)
			require.Nil(t, l)

			client := redis.NewClient(&redis.Options{Addr: closedPort})
			defer client.Close()
			l, fromNew := New([]redis.UniversalClient{client}, c.bad)
			require.Equal(t, err, fromNew)
			require.Nil(t, l)
			require.Zero(t, client.PoolStats().Misses, "it was used")
		})
	}
}

func TestTheLimitsOfEveryOptionAreAccepted(t *testing.T) {
	for _, good := range []Option{
		WithDrift(0.01, 2*time.Millisecond),
		WithDrift(math.Nextafter(1, 0), maxTTL),
		WithNodeTimeout(time.Millisecond),
		WithNodeTimeout(maxTTL),
		WithBackoff(time.Millisecond, time.Millisecond),
		WithBackoff(maxTTL, maxTTL),
		WithWait(0),
		WithWait(time.Hour),
		WithOwner("a"),
		WithOwner("büro/7"),
		WithKeyPrefix(""),
		WithKeyPrefix("any thing\n"),
	} {
		_, err := newConfig([]Option{good})
		require.NoError(t, err)
	}
}

func TestTheDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	c, err := newConfig(nil)
	require.NoError(t, err)
	require.Equal(t, drift{0.01, 2 * time.Millisecond, clockStep}, c.drift)
	require.Equal(t, 200*time.Millisecond, c.nodeTimeout)
	require.False(t, c.nodeTimeoutSet)
	require.Equal(t, 50*time.Millisecond, c.backoffBase)
	require.Equal(t, 500*time.Millisecond, c.backoffMax)
	require.Equal(t, 750*time.Millisecond, c.wait)
	require.Empty(t, c.prefix)
	require.Regexp(t, `^\S+:\d+$`, c.owner)
}

func TestTheLastOfTwoOptionsCounts(t *testing.T) {
	c, err := newConfig([]Option{WithWait(-1), WithWait(time.Second), WithOwner(""), WithOwner("me")})
	require.NoError(t, err)
	require.Equal(t, time.Second, c.wait)
	require.Equal(t, "me", c.owner)
}

func TestAnOwnerHasNoSpacesOrControlCharactersOfAnyKind(t *testing.T) {
	for _, owner := range []string{"a\u00a0b", "a\u2003b", "a\u2028b", "a\u0085b", "a\u009bb", "a\u3000b"} {
		require.Error(t, checkOwner("WithOwner", owner), "%q", owner)
	}
}

func TestANilOptionIsAnErrorAndNoPanic(t *testing.T) {
	require.NotPanics(t, func() {
		_, err := newConfig([]Option{nil})
		require.Error(t, err)
	})
	c := defaultConfig()
	require.NotPanics(t, func() {
		_, err := c.forAcquire(time.Second, []AcquireOption{nil})
		require.Error(t, err)
	})
}

// deafLocker has nodes without workers: what would be sent stays in their queues.
func deafLocker(t *testing.T, opts ...Option) *Locker {
	t.Helper()
	cfg, err := newConfig(opts)
	require.NoError(t, err)
	l := &Locker{cfg: cfg, panel: panel{clock: clock.Now, quorum: 1, observer: &observer{}}, held: make(map[*Lock]struct{})}
	l.nodes = []*node{newNode("a:1", nil, cfg.nodeTimeout, clock.Now)}
	t.Cleanup(func() { require.Empty(t, l.nodes[0].queue, "something was sent") })
	return l
}

func TestEveryBadArgumentOfAnAcquireIsNamedAndNothingIsSent(t *testing.T) {
	const ttl = 10 * time.Second
	const ttlRange = "10ms … 8784h0m0s"
	for _, c := range []struct {
		name    string
		locker  []Option
		key     string
		ttl     time.Duration
		options []AcquireOption
		parts   []string
	}{
		{"empty key", nil, "", ttl, nil, []string{"key is empty"}},
		{"ttl 0", nil, "k", 0, nil, []string{"ttl 0s", ttlRange}},
		{"negative ttl", nil, "k", -time.Second, nil, []string{"ttl -1s", ttlRange}},
		{"ttl in the wrong unit", nil, "k", 30, nil, []string{"ttl 30ns", ttlRange}},
		{"ttl just too short", nil, "k", minTTL - 1, nil, []string{"ttl 9.999999ms", ttlRange}},
		{"ttl just too long", nil, "k", maxTTL + 1, nil, []string{"ttl 8784h0m0.000000001s", ttlRange}},
		{"longest of durations", nil, "k", math.MaxInt64, nil, []string{"ttl 2562047h", ttlRange}},
		{"ttl at the node timeout", []Option{WithNodeTimeout(time.Second)}, "k", time.Second, nil, []string{"ttl 1s", "above the node timeout of 1s"}},
		{"ttl below the node timeout", []Option{WithNodeTimeout(time.Second)}, "k", minTTL, nil, []string{"ttl 10ms", "above the node timeout of 1s"}},
		{"ttl all drift", []Option{WithDrift(0.01, time.Second)}, "k", time.Second, nil, []string{"ttl 1s", "above the drift allowance of 1.01s"}},
		{"ttl mostly drift", []Option{WithDrift(0.9, time.Second)}, "k", 10 * time.Second, nil, []string{"ttl 10s", "above the drift allowance of 10s"}},
		{"negative Wait", nil, "k", ttl, []AcquireOption{Wait(-1)}, []string{"Wait", "-1ns", "0 (no limit) … 8784h0m0s"}},
		{"MaxHold below ttl", nil, "k", ttl, []AcquireOption{MaxHold(ttl - 1)}, []string{"MaxHold", "9.999999999s", "ttl (10s) … 8784h0m0s"}},
		{"MaxHold 0", nil, "k", ttl, []AcquireOption{MaxHold(0)}, []string{"MaxHold", "0s", "ttl (10s) …"}},
		{"negative MaxHold", nil, "k", ttl, []AcquireOption{MaxHold(-ttl)}, []string{"MaxHold", "-10s", "ttl (10s) …"}},
		{"huge MaxHold", nil, "k", ttl, []AcquireOption{MaxHold(maxTTL + 1)}, []string{"MaxHold", "… 8784h0m0s"}},
		{"empty Owner", nil, "k", ttl, []AcquireOption{Owner("")}, []string{"Owner", `""`, "non-empty"}},
		{"Owner with tab", nil, "k", ttl, []AcquireOption{Owner("a\tb")}, []string{"Owner", `"a\tb"`, "control characters"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := deafLocker(t, c.locker...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // nobody answers what is sent by mistake
			defer cancel()
			k, err := l.TryAcquire(ctx, c.key, c.ttl, c.options...)
			requireNames(t, err, c.parts...)
			require.Nil(t, k)
			require.NotErrorIs(t, err, ErrNotAcquired, "a mistake is not worth a second try")

			k, again := l.Acquire(ctx, c.key, c.ttl, c.options...)
			require.Equal(t, err, again)
			require.Nil(t, k)

			again = l.Do(ctx, c.key, c.ttl, func(context.Context, *Lock) error { panic("it ran") }, c.options...)
			require.Equal(t, err, again)
		})
	}
}

func TestTryAcquireRefusesToWait(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		_, err := deafLocker(t).TryAcquire(t.Context(), "k", time.Second, Wait(wait))
		requireNames(t, err, "Wait", "TryAcquire does not wait", "Acquire")
	}
}

func TestABadTTLOfARenewalIsNamedAndNothingIsSent(t *testing.T) {
	l := deafLocker(t, WithNodeTimeout(50*time.Millisecond))
	k := l.newLock(request{keys: []string{"k"}, ttl: time.Second}, clock.Instant{})
	for ttl, part := range map[time.Duration]string{
		0: "10ms … 8784h0m0s", maxTTL + 1: "10ms … 8784h0m0s", minTTL: "node timeout of 50ms",
	} {
		requireNames(t, k.Renew(t.Context(), ttl), "ttl", part)
	}
}

func TestATTLIsRoundedDownToWholeMilliseconds(t *testing.T) {
	c := defaultConfig()
	for in, want := range map[time.Duration]time.Duration{
		minTTL:                         minTTL,
		minTTL + 1:                     minTTL,
		minTTL + 999_999:               minTTL,
		1500*time.Millisecond + 10_000: 1500 * time.Millisecond,
		maxTTL:                         maxTTL,
	} {
		got, err := c.checkTTL(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestADefaultNodeTimeoutGivesWayToAShortTTL(t *testing.T) {
	l := deafLocker(t)
	_, err := l.cfg.checkTTL(minTTL)
	require.NoError(t, err)
	require.Equal(t, minTTL/4, l.nodeTimeout(minTTL))
}

func TestATTLIsStillAboveTheNodeTimeoutOnceRoundedDown(t *testing.T) {
	c, err := newConfig([]Option{WithNodeTimeout(200*time.Millisecond + 200_000)})
	require.NoError(t, err)
	ttl, err := c.checkTTL(200*time.Millisecond + 500_000)
	if err == nil {
		require.Greater(t, ttl, c.nodeTimeout)
	}
}

func TestTheOptionsOfAnAcquireOverrideThoseOfTheLocker(t *testing.T) {
	c, err := newConfig([]Option{WithOwner("locker")})
	require.NoError(t, err)
	a, err := c.forAcquire(time.Second, nil)
	require.NoError(t, err)
	require.Equal(t, acquireConfig{owner: "locker"}, a)
	a, err = c.forAcquire(time.Second, []AcquireOption{Owner("call"), Wait(0), MaxHold(time.Second), AutoRenew()})
	require.NoError(t, err)
	require.Equal(t, acquireConfig{owner: "call", ownerSet: true, waitSet: true, maxHold: time.Second, holdSet: true, autoRenew: true}, a)
}

func TestOpenAndNewRefuseToBeWithoutNodes(t *testing.T) {
	_, err := Open(nil)
	requireNames(t, err, "urls", "no nodes given", "1 or more")
	_, err = Open([]string{})
	requireNames(t, err, "urls", "no nodes given")
	_, err = New(nil)
	requireNames(t, err, "clients", "no nodes given", "1 or more")
}

func TestAURLThatCannotBeUsedIsNamedByItsPosition(t *testing.T) {
	const form = "redis://[user:password@]host[:port][/database]"
	for _, bad := range []string{
		"", " ", "127.0.0.1:6379", "localhost", "http://h:6379", "unix:///run/redis.sock", "redis:", "redis:h:6379", "redis://", "redis:///0",
		"//h:6379", "redis://h:port", "redis://h:6379/zero", "redis://h:6379/0/1", "redis://h:6379/-1", "redis://h?db=-1", "redis://h?db=x",
		"redis://h:6379#1", "redis://h:6379 ", " redis://h:6379", "redis://h:6379\n", "redis://[::1", "redis://u:p@", "redis://u:%zz@h",
		"rediss://h?skip_verify=perhaps",
	} {
		t.Run(bad, func(t *testing.T) {
			l, err := Open([]string{"redis://" + closedPort, bad})
			requireNames(t, err, "urls[1]: ", form, "rediss://", "percent-encoded")
			require.Nil(t, l)
		})
	}
}

func TestAHostThatIsNoneOrAPortThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []string{
		"redis://h:6379:6380", "redis://h:6379,g:6380", "redis://h,g:6379", "redis://::1", "redis://::1:6379", "redis://h:0", "redis://h:65536", "redis://h:99999999999",
	} {
		_, err := parseURLs([]string{bad}, time.Second)
		require.Error(t, err, "%s", bad)
	}
}

func TestAParameterOfAURLThatWouldBeOverruledIsRefused(t *testing.T) {
	for _, query := range []string{"max_retries=3", "protocol=3", "pool_size=10", "dial_timeout=5s", "password=x", "DB=1", "db=1&x=", "=1"} {
		_, err := Open([]string{"redis://h:6379?" + query})
		requireNames(t, err, "urls[0]: ", "parameter", "db, client_name, skip_verify")
	}
}

func TestAParameterThatDoesNotParseIsNotSilentlyDropped(t *testing.T) {
	for _, query := range []string{"db=3;client_name=x", "db=3&client_name=%zz", "db=%3", ";"} {
		_, err := parseURL("redis://h:6379?" + query)
		require.Error(t, err, "%s", query)
	}
}

func TestTheSameHostAndPortTwiceIsRefusedHoweverItIsWritten(t *testing.T) {
	for _, c := range []struct{ a, b, same string }{
		{"redis://h:6379", "redis://h:6379", "h:6379"},
		{"redis://h:6379/0", "redis://h:6379/1", "h:6379"},
		{"redis://h:6379", "redis://h:6379?db=3", "h:6379"},
		{"redis://u:p@h:6379", "redis://v:q@h:6379", "h:6379"},
		{"redis://h:6379", "rediss://h:6379", "h:6379"},
		{"redis://h", "redis://h:6379", "h:6379"},
		{"redis://h:", "redis://h:6379/", "h:6379"},
		{"redis://h.example", "REDIS://H.Example", "h.example:6379"},
		{"redis://:6379", "redis://localhost", "localhost:6379"},
		{"redis://[::1]:7000", "redis://[0:0:0:0:0:0:0:1]:7000", "[::1]:7000"},
		{"redis://[::1]", "redis://[0::0001]", "[::1]:6379"},
		{"redis://[FE80::A%25eth0]", "redis://[fe80:0::a%25eth0]", "[fe80::a%eth0]:6379"},
		{"redis://127.0.0.1", "redis://[::ffff:127.0.0.1]", "127.0.0.1:6379"},
		{"redis://127.0.0.1", "redis://[::FFFF:7f00:1]", "127.0.0.1:6379"},
	} {
		t.Run(c.a+" "+c.b, func(t *testing.T) {
			l, err := Open([]string{c.a, "redis://other:1", c.b})
			requireNames(t, err, "urls[0] and urls[2]", c.same, "independent node")
			require.Nil(t, l)
		})
	}
}

func TestDifferentHostsOrPortsAreDifferentNodes(t *testing.T) {
	options, err := parseURLs([]string{
		"redis://h:6379", "redis://h:6380", "redis://g:6379", "redis://127.0.0.1", "redis://127.0.0.2",
		"redis://[::1]", "redis://[::2]", "redis://[fe80::1%25eth0]", "redis://[fe80::1%25eth1]",
	}, time.Second)
	require.NoError(t, err)
	require.Len(t, options, 9)
}

func TestTheSameHostAndPortInOddSpellingsIsRefusedToo(t *testing.T) {
	for _, twice := range [][2]string{{"redis://h:6379", "redis://h:06379"}, {"redis://h.example", "redis://h.example."}} {
		_, err := parseURLs(twice[:], time.Second)
		require.Error(t, err, "%v", twice)
	}
}

func TestClientsAreNamedByTheirAddressOrPosition(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"})
	defer single.Close()
	socket := redis.NewClient(&redis.Options{Network: "unix", Addr: "/run/redis.sock"})
	defer socket.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.2:6379"}})
	defer cluster.Close()
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"10.0.0.3:26379"}})
	defer failover.Close()
	names, err := nameClients([]redis.UniversalClient{cluster, single, socket, failover})
	require.NoError(t, err)
	require.Equal(t, []string{"node 0", "10.0.0.1:6379", "node 2", "node 3"}, names)
}

func TestClientsThatAreNilOrLeadToOneServerAreRefused(t *testing.T) {
	client := func(addr string, db int) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := client(closedPort, 0), client("127.0.0.1:2", 0)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{closedPort}})
	defer cluster.Close()
	var typed *redis.Client
	var typedCluster *redis.ClusterClient
	for _, c := range []struct {
		name    string
		clients []redis.UniversalClient
		parts   []string
	}{
		{"nil", []redis.UniversalClient{a, nil}, []string{"clients[1]", "is nil"}},
		{"nil pointer", []redis.UniversalClient{typed}, []string{"clients[0]", "is nil"}},
		{"nil pointer to a cluster", []redis.UniversalClient{a, b, typedCluster}, []string{"clients[2]", "is nil"}},
		{"the same client", []redis.UniversalClient{a, b, a}, []string{"clients[0] and clients[2]", "the same client", "independent node"}},
		{"the same cluster client", []redis.UniversalClient{a, cluster, cluster}, []string{"clients[1] and clients[2]", "the same client"}},
		{"the same address", []redis.UniversalClient{b, a, client(closedPort, 0)}, []string{"clients[1] and clients[2]", closedPort, "independent node"}},
		{"another database", []redis.UniversalClient{a, client(closedPort, 7)}, []string{"clients[0] and clients[1]", closedPort}},
		{"another spelling", []redis.UniversalClient{a, client("[::ffff:127.0.0.1]:1", 0)}, []string{"clients[0] and clients[1]", closedPort}},
		{"another case", []redis.UniversalClient{client("Host:1", 0), client("hOST:1", 0)}, []string{"clients[0] and clients[1]", "host:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := New(c.clients)
			requireNames(t, err, c.parts...)
			require.Nil(t, l)
		})
	}
	require.Zero(t, a.PoolStats().Misses, "it was used")
}

func TestTheSameSocketTwiceIsRefused(t *testing.T) {
	var clients []redis.UniversalClient
	for db := range 2 {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: "/run/redis.sock", DB: db})
		defer c.Close()
		clients = append(clients, c)
	}
	_, err := nameClients(clients)
	require.Error(t, err)
}

func TestAGoodURLSaysWhereAndAsWhomToConnect(t *testing.T) {
	for _, c := range []struct {
		url, addr, user, password, name string
		db                              int
	}{
		{"redis://h", "h:6379", "", "", "", 0},
		{"redis://h:7000/", "h:7000", "", "", "", 0},
		{"redis://:s3cret@h:7000/2", "h:7000", "", "s3cret", "", 2},
		{"redis://me:s3cret@h/15", "h:6379", "me", "s3cret", "", 15},
		{"redis://me@h", "h:6379", "me", "", "", 0},
		{"redis://me:a%2Fb%23c%3Fd%40e%3Af%25g%20h@h", "h:6379", "me", "a/b#c?d@e:f%g h", "", 0},
		{"redis://me:a@b@h", "h:6379", "me", "a@b", "", 0},
		{"redis://m%3Ae:x@h", "h:6379", "m:e", "x", "", 0},
		{"redis://h?db=4&client_name=locks", "h:6379", "", "", "locks", 4},
		{"redis://h/3?db=4", "h:6379", "", "", "", 4},
		{"redis://[::1]:7000", "[::1]:7000", "", "", "", 0},
		{"redis://[::1]", "[::1]:6379", "", "", "", 0},
	} {
		t.Run(c.url, func(t *testing.T) {
			options, err := parseURLs([]string{c.url}, time.Second)
			require.NoError(t, err)
			o := options[0]
			require.Equal(t, c.addr, o.Addr)
			require.Equal(t, c.user, o.Username)
			require.Equal(t, c.password, o.Password)
			require.Equal(t, c.name, o.ClientName)
			require.Equal(t, c.db, o.DB)
			require.Nil(t, o.TLSConfig)
		})
	}
}

func TestTLSIsForRedissAloneAndVerifiesUnlessToldOtherwise(t *testing.T) {
	options, err := parseURLs([]string{"rediss://h:6379", "rediss://g:6379?skip_verify=true"}, time.Second)
	require.NoError(t, err)
	require.Equal(t, "h", options[0].TLSConfig.ServerName)
	require.Equal(t, uint16(tls.VersionTLS12), options[0].TLSConfig.MinVersion)
	require.False(t, options[0].TLSConfig.InsecureSkipVerify)
	require.True(t, options[1].TLSConfig.InsecureSkipVerify)
	_, err = parseURLs([]string{"redis://h:6379?skip_verify=true"}, time.Second)
	require.Error(t, err, "there is nothing to verify")
}

func TestClientsOfOpenAreTunedForLocks(t *testing.T) {
	options, err := parseURLs([]string{"redis://h"}, 123*time.Millisecond)
	require.NoError(t, err)
	o := options[0]
	require.Equal(t, -1, o.MaxRetries)
	require.Equal(t, 1, o.DialerRetries)
	require.Equal(t, 123*time.Millisecond, o.DialTimeout)
	require.Equal(t, 123*time.Millisecond, o.ReadTimeout)
	require.Equal(t, 123*time.Millisecond, o.WriteTimeout)
	require.True(t, o.ContextTimeoutEnabled)
	require.Equal(t, 2, o.Protocol)
	require.True(t, o.DisableIdentity)
	require.Equal(t, maintnotifications.ModeDisabled, o.MaintNotificationsConfig.Mode)
	require.Positive(t, o.PoolSize)
	require.Less(t, o.PoolSize, 10, "a few")
	require.Equal(t, -1, o.PipelinePoolSize)

	// The client library keeps what it was told.
	c := redis.NewClient(o)
	defer c.Close()
	require.Equal(t, 1, c.Options().DialerRetries)
	require.Zero(t, c.Options().MaxRetries)
	require.Equal(t, 123*time.Millisecond, c.Options().ReadTimeout)
}

func TestOpenNeedsNoNodeThatIsUp(t *testing.T) {
	l, err := Open([]string{"redis://" + closedPort, "redis://127.0.0.1:2", "redis://127.0.0.1:3"})
	require.NoError(t, err)
	require.Equal(t, 2, l.quorum)
	require.NoError(t, l.Close())
}

func TestAPasswordOfAnyCharactersWorksPercentEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user, password := rapid.String().Draw(t, "user"), rapid.String().Draw(t, "password")
		u := url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: "h:6379", Path: "/2"}
		o, err := parseURL(u.String())
		require.NoError(t, err)
		require.Equal(t, user, o.Username)
		require.Equal(t, password, o.Password)
		require.Equal(t, "h:6379", o.Addr)
		require.Equal(t, 2, o.DB)
	})
}

// The letters and digits of a secret stand in none of our messages in this company.
const (
	secretLetters = "qxzjQXZJ2458"
	secretSigns   = "/#?@:%& =;[]\"'<^é漢!$.,-_~\\+\x00\n\x7f"
)

func anySecret() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]rune(secretLetters))
	return rapid.StringOfN(rapid.OneOf(letters, letters, rapid.SampledFrom([]rune(secretSigns))), 4, 16, -1)
}

// pieces are the parts of a secret that tell something: four characters, one of them a
// letter or digit.
func pieces(secret string) (all []string) {
	runes := []rune(strings.ToLower(secret))
	for i := 0; i+4 <= len(runes); i++ {
		if piece := string(runes[i : i+4]); strings.ContainsAny(piece, strings.ToLower(secretLetters)) {
			all = append(all, piece)
		}
	}
	return all
}

func requireHidden(t require.TestingT, secret, text string) {
	shown := []string{strings.ToLower(text)}
	if decoded, err := url.PathUnescape(text); err == nil {
		shown = append(shown, strings.ToLower(decoded))
	}
	for _, piece := range pieces(secret) {
		for _, s := range shown {
			require.NotContains(t, s, piece, "a piece of the password %q", secret)
		}
	}
}

// Where people put passwords, and where they end up when a character was not encoded.
var (
	properPlaces = []string{
		"redis://:%s@h:6379", "redis://u:%s@h:6379/0", "rediss://u:%s@h", "redis://u:%s@[::1]:7000?db=1", "redis://%s:%[1]s@h:6379",
	}
	oddPlaces = []string{
		"%s", "//:%s@h:6379", ":%s@h:6379", "redis:u:%s@h:6379", "http://u:%s@h:6379", "unix://u:%s@/run/redis.sock", "redis://u:%s", "redis://:%s",
		"redis://%s", "redis://%s@h:6379", "redis://h:%s", "redis://h:6379/%s", "redis://h:6379/0/%s", "redis://h:6379?password=%s", "redis://h:6379?%s",
		"redis://h:6379?db=%s", "redis://h:6379?skip_verify=%s", "redis://h:6379#%s", "redis://u:%s@h:6379/-1", "redis://u:%s@h:6379?password=%[1]s",
		"redis://u:%s@", "redis://u:%s:h:6379", "redis://u:%s@h:port", "redis://[%s]:6379", "%s://h:6379",
	}
)

func TestNoErrorAboutAURLShowsAnyPartOfAPassword(t *testing.T) {
	rapid.Check(t, checkSecretHidden)
}

func FuzzURL(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkSecretHidden)) }

func checkSecretHidden(t *rapid.T) {
	secret := anySecret().Draw(t, "secret")
	place := rapid.SampledFrom(append(properPlaces, oddPlaces...)).Draw(t, "place")
	raw := fmt.Sprintf(place, secret)
	_, err := parseURLs([]string{"redis://other:1", raw}, time.Second)
	if err != nil {
		require.ErrorContains(t, err, "urls[1]")
		requireHidden(t, secret, err.Error())
	}
}

// Encoded as it should be, a password is refused nowhere and shown nowhere: not among
// duplicates either.
func TestNoErrorAboutTwoEqualURLsShowsThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := anySecret().Draw(t, "secret")
		raw := fmt.Sprintf(rapid.SampledFrom(properPlaces).Draw(t, "place"), url.QueryEscape(secret))
		raw = strings.ReplaceAll(raw, "+", "%20")
		_, err := parseURLs([]string{raw, raw}, time.Second)
		require.ErrorContains(t, err, "urls[0] and urls[1]")
		requireHidden(t, secret, err.Error())
	})
}

// What is taken for the host is looked up and shown with every failure of the node.
func TestNoPartOfAPasswordIsTakenForTheHost(t *testing.T) {
	for _, raw := range []string{"redis://u:qxzj:h:6379", "redis://:qxzj:h:6379", "redis://:a@qxzj?2;4@h:6379", "redis://u:a@qxzj?100%@h", "redis://:2458?;@h"} {
		_, err := parseURL(raw)
		require.Error(t, err, "%s", raw)
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := anySecret().Draw(t, "secret")
		o, err := parseURL(fmt.Sprintf(rapid.SampledFrom(properPlaces).Draw(t, "place"), secret))
		if err == nil {
			requireHidden(t, secret, o.Addr)
		}
	})
}
