package redlock

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redistest"
)

// realNodes are redis-server processes and a plain client to look at each.
type realNodes struct {
	t       *testing.T
	servers []*redistest.Server
	clients []*redis.Client
}

func startReal(t *testing.T, n int, args ...string) *realNodes {
	t.Helper()
	r := &realNodes{t: t, servers: redistest.ForTest(t, n, args...)}
	for _, s := range r.servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = c.Close() })
		r.clients = append(r.clients, c)
	}
	return r
}

func (r *realNodes) open(opts ...Option) *Locker {
	r.t.Helper()
	l, err := Open(redistest.URLs(r.servers), opts...)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, l.Close()) })
	return l
}

// keys returns what the nodes store, all together.
func (r *realNodes) keys() (keys []string) {
	for _, c := range r.clients {
		found, err := c.Keys(r.t.Context(), "*").Result()
		require.NoError(r.t, err)
		keys = append(keys, found...)
	}
	return keys
}

func (r *realNodes) eventuallyEmpty(limit time.Duration) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.keys()) == 0 }, limit, 10*time.Millisecond)
}

func (r *realNodes) pause(t *testing.T, servers ...*redistest.Server) (resume func()) {
	t.Helper()
	for _, s := range servers {
		s.PauseForTest(t)
	}
	return func() {
		for _, s := range servers {
			require.NoError(t, s.Resume())
		}
	}
}

func TestRealServersStoreTheTokenWithTheTTLAndExcludeOtherClients(t *testing.T) {
	r := startReal(t, 5)
	l := r.open()
	ctx := t.Context()
	k, err := l.TryAcquire(ctx, "lock:jobprocessor", 5*time.Second)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Nodes() == 5 }, time.Second, time.Millisecond)
	for _, c := range r.clients {
		require.Equal(t, k.Token(), c.Get(ctx, "lock:jobprocessor").Val())
		pttl := c.PTTL(ctx, "lock:jobprocessor").Val()
		require.LessOrEqual(t, pttl, 5*time.Second)
		require.Greater(t, pttl, 4*time.Second)
		require.False(t, c.SetNX(ctx, "lock:jobprocessor", "theirs", time.Second).Val())
	}
	_, err = l.TryAcquire(ctx, "lock:jobprocessor", time.Second)
	require.ErrorIs(t, err, ErrHeld)

	require.NoError(t, k.Renew(ctx, 20*time.Second))
	require.NoError(t, k.Renew(ctx, 10*time.Second))
	require.Eventually(t, func() bool { // every node has had the second by now
		for _, c := range r.clients {
			if pttl := c.PTTL(ctx, "lock:jobprocessor").Val(); pttl > 10*time.Second || pttl < 9*time.Second {
				return false
			}
		}
		return true
	}, time.Second, time.Millisecond)
	require.NoError(t, k.Release(ctx))
	r.eventuallyEmpty(time.Second)

	for _, c := range r.clients {
		require.NoError(t, c.Set(ctx, "theirs", "v", 0).Err())
	}
	_, err = l.TryAcquire(ctx, "theirs", time.Second)
	require.ErrorIs(t, err, ErrHeld)
}

func TestRealServersGrantToOneHolderAtATime(t *testing.T) {
	r := startReal(t, 3)
	lockers := []*Locker{r.open(), r.open(), r.open()}
	var holders, grants atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for range 10 {
				err := lockers[i%3].Do(t.Context(), "orders", 10*time.Second, func(context.Context, *Lock) error {
					if holders.Add(1) != 1 {
						return fmt.Errorf("two holders")
					}
					grants.Add(1)
					holders.Add(-1)
					return nil
				}, Wait(0))
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 120, grants.Load())
	r.eventuallyEmpty(time.Second)
}

func TestRealServersManyCallersLeaveNoKey(t *testing.T) {
	r := startReal(t, 5)
	l := r.open()
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			for i := range 150 {
				k, err := l.TryAcquire(t.Context(), fmt.Sprintf("k%d-%d", c, i), 10*time.Second)
				require.NoError(t, err)
				if i%3 == 0 {
					require.NoError(t, k.Renew(t.Context(), 10*time.Second))
				}
				require.NoError(t, k.Release(t.Context()))
			}
		})
	}
	wg.Wait()
	r.eventuallyEmpty(time.Second)
}

func TestRealServersTwoOfFiveStoppedCostNothingAndWakeUpWithoutKeys(t *testing.T) {
	r := startReal(t, 5)
	for name, open := range map[string]func() *Locker{
		"Open":                      func() *Locker { return r.open() },
		"New with default settings": func() *Locker { return r.openDefault() },
	} {
		t.Run(name, func(t *testing.T) {
			l := open()
			require.NoError(t, l.Do(t.Context(), "warm", 10*time.Second, func(context.Context, *Lock) error { return nil }))
			resume := r.pause(t, r.servers[1], r.servers[3])
			defer resume()
			var wg sync.WaitGroup
			for c := range 32 {
				wg.Go(func() {
					for i := range 30 {
						k, err := l.TryAcquire(t.Context(), fmt.Sprintf("k%d-%d", c, i), 60*time.Second)
						require.NoError(t, err)
						require.NoError(t, k.Renew(t.Context(), 60*time.Second))
						require.NoError(t, k.Release(t.Context()))
					}
				})
			}
			begin := time.Now()
			wg.Wait()
			t.Logf("960 cycles in %v", time.Since(begin))
			resume()
			r.eventuallyEmpty(10 * time.Second) // with default settings the client sits out its own 5 s
		})
	}
}

func (r *realNodes) openDefault() *Locker {
	r.t.Helper()
	var clients []redis.UniversalClient
	for _, s := range r.servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		r.t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	l, err := New(clients)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestRealServersAllStoppedLossIsToldAndNothingHangs(t *testing.T) {
	r := startReal(t, 5)
	l := r.open()
	for _, opts := range [][]AcquireOption{nil, {AutoRenew()}} {
		opts = append(opts, Wait(5*time.Second)) // nodes that are just old enough not to be a fresh deployment
		k, err := l.Acquire(t.Context(), "orders", 2*time.Second, opts...)
		require.NoError(t, err)
		resume := r.pause(t, r.servers...)
		<-k.Done()
		late := time.Since(k.Until())
		require.ErrorIs(t, k.Err(), ErrLost)
		require.Less(t, late, 250*time.Millisecond)

		begin := time.Now()
		_, err = l.TryAcquire(t.Context(), "other", 2*time.Second)
		acquire := time.Since(begin)
		require.ErrorIs(t, err, ErrNoQuorum)
		begin = time.Now()
		require.ErrorIs(t, k.Release(t.Context()), ErrLost)
		release := time.Since(begin)
		t.Logf("done %v after until, TryAcquire back after %v, Release after %v", late, acquire, release)
		require.Less(t, acquire, time.Second)
		require.Less(t, release, time.Second)
		resume()
		r.eventuallyEmpty(5 * time.Second)
		require.Eventually(t, func() bool { // the breakers close
			k, err := l.TryAcquire(t.Context(), "orders", 2*time.Second)
			return err == nil && k.Release(t.Context()) == nil
		}, 5*time.Second, 50*time.Millisecond)
	}
}

func TestRealServersCancelledAcquiresLeaveNoKey(t *testing.T) {
	r := startReal(t, 5)
	l := r.open()
	var wg sync.WaitGroup
	var cancelled atomic.Int32
	for c := range 16 {
		wg.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Duration(mathrand.IntN(800))*time.Microsecond, cancel)
				k, err := l.TryAcquire(ctx, fmt.Sprintf("k%d-%d", c, i), 60*time.Second)
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
					cancelled.Add(1)
					continue
				}
				cancel()
				require.NoError(t, k.Release(ctx), "a cancelled context does not keep Release from deleting")
			}
		})
	}
	wg.Wait()
	require.NotZero(t, cancelled.Load())
	t.Logf("%d of 960 cancelled in mid-acquire", cancelled.Load())
	r.eventuallyEmpty(time.Second)
}

func TestRealServersRestartedOneByOneKeepARenewedLock(t *testing.T) {
	r := startReal(t, 3)
	l := r.open()
	k, err := l.TryAcquire(t.Context(), "orders", 30*time.Second)
	require.NoError(t, err)
	for _, s := range r.servers {
		require.NoError(t, s.Kill())
		require.NoError(t, s.Restart())
		require.Eventually(t, func() bool { // once the breaker has closed, a renewal gives the token back
			return k.Renew(t.Context(), 30*time.Second) == nil && k.Nodes() == 3
		}, 10*time.Second, 20*time.Millisecond)
	}
	require.NoError(t, k.Err())
	require.Eventually(t, func() bool { // Nodes counts a node until it is heard of its restart
		return k.Renew(t.Context(), 30*time.Second) == nil && len(r.keys()) == 3
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, k.Release(t.Context()))
}

func TestRealServersScriptFlushGoesUnnoticed(t *testing.T) {
	r := startReal(t, 3)
	l := r.open()
	for range 5 {
		k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.NoError(t, err)
		for _, c := range r.clients {
			require.NoError(t, c.ScriptFlush(t.Context()).Err())
		}
		require.NoError(t, k.Renew(t.Context(), 10*time.Second))
		for _, c := range r.clients {
			require.NoError(t, c.ScriptFlush(t.Context()).Err())
		}
		require.NoError(t, k.Release(t.Context()))
	}
}

func TestRealServersAKeyOfAnotherTypeIsRefusedAndNamed(t *testing.T) {
	r := startReal(t, 3)
	l := r.open()
	k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
	require.NoError(t, err)
	for _, c := range r.clients {
		require.NoError(t, c.Del(t.Context(), "orders").Err())
		require.NoError(t, c.LPush(t.Context(), "orders", "x").Err())
	}
	_, err = l.TryAcquire(t.Context(), "orders", 10*time.Second)
	require.ErrorIs(t, err, ErrHeld)
	err = k.Renew(t.Context(), 10*time.Second)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorContains(t, err, "something else than a lock")
	_ = k.Release(t.Context())
}

func TestRealServersARefusalNamesTheTokenInTheWay(t *testing.T) {
	r := startReal(t, 1)
	l, c := r.open(), r.clients[0]
	k, err := l.TryAcquire(t.Context(), "held", 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, c.Set(t.Context(), "foreign", "theirs \xff", 0).Err())
	require.NoError(t, c.Set(t.Context(), "long", strings.Repeat("x", 5000), 0).Err())
	require.NoError(t, c.LPush(t.Context(), "list", "x").Err())
	for key, want := range map[string]string{
		"held": k.Token(), "foreign": "theirs \xff", "long": strings.Repeat("x", 1024), "list": "",
	} {
		for _, keys := range [][]any{{key}, {"free", key}} {
			reply, err := c.Do(t.Context(), acquireAllArgs(keys, "me/x", time.Second, "", 0, listing{})...).Result()
			require.NoError(t, err)
			a, ok := readAcquireAll(reply, len(keys))
			require.True(t, ok, "%v", reply)
			require.Equal(t, []any{refused, want, len(keys) - 1}, []any{a.vote, a.holder, a.blocked})
		}
	}
}

func TestRealServersPasswordUserAndDatabaseComeFromTheURL(t *testing.T) {
	r := startReal(t, 3, "--requirepass", "s3cret/word", "--user", "locker", "on", ">other#pass", "~lock:*", "+@all")
	var good, bad, forbidden []string
	for _, s := range r.servers {
		good = append(good, "redis://:s3cret%2Fword@"+s.Addr()+"/2")
		bad = append(bad, "redis://:wr0ngword@"+s.Addr())
		forbidden = append(forbidden, "redis://locker:other%23pass@"+s.Addr())
	}
	l, err := Open(good)
	require.NoError(t, err)
	defer l.Close()
	k, err := l.TryAcquire(t.Context(), "orders", 10*time.Second)
	require.NoError(t, err)
	c := redis.NewClient(&redis.Options{Addr: r.servers[0].Addr(), Password: "s3cret/word", DB: 2})
	defer c.Close()
	require.Equal(t, k.Token(), c.Get(t.Context(), "orders").Val())

	for want, urls := range map[string][]string{"check user and password": bad, "the node's user needs": forbidden} {
		l, err := Open(urls)
		require.NoError(t, err)
		defer l.Close()
		_, err = l.TryAcquire(t.Context(), "orders", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, want)
		for _, secret := range []string{"wr0ngword", "s3cret", "other#pass"} {
			require.NotContains(t, err.Error(), secret)
		}
	}
}

func TestRealServersOverTLS(t *testing.T) {
	cert, key := selfSigned(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, port, _ := net.SplitHostPort(addr)
	startReal(t, 1, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")

	l, err := Open([]string{"rediss://" + addr + "?skip_verify=true"}, WithNodeTimeout(2*time.Second))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Do(t.Context(), "orders", 10*time.Second, func(context.Context, *Lock) error { return nil }))

	strict, err := Open([]string{"rediss://" + addr}, WithNodeTimeout(2*time.Second))
	require.NoError(t, err)
	defer strict.Close()
	_, err = strict.TryAcquire(t.Context(), "orders", 10*time.Second)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.True(t, strings.Contains(err.Error(), "certificate"), err)
}

func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redlock test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "EC PRIVATE KEY", der)
}
