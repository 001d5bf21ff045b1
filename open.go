package redlock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"weak"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	remote "github.com/redlock-go/redlock/internal/node"
)

// parseURLs returns lock-tuned client options. Its errors show a URL's position, and host and
// port of a good one: any part of one that does not parse may be a password.
func parseURLs(urls []string, nodeTimeout time.Duration) ([]*redis.Options, error) {
	if len(urls) == 0 {
		return nil, errors.New("redlock: urls: no nodes given; 1 or more are needed, best an odd number")
	}
	options := make([]*redis.Options, len(urls))
	addrs := make([]string, len(urls))
	for i, raw := range urls {
		o, err := parseURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redlock: urls[%d]: %w", i, err)
		}
		options[i], addrs[i] = tuned(o, nodeTimeout), o.Addr
	}
	return options, checkDistinct("urls", addrs)
}

// parameters of a URL that we take; the others would be overruled by the tuning.
var parameters = []string{"db", "client_name", "skip_verify"}

func parseURL(raw string) (*redis.Options, error) {
	malformed := errors.New("not of the form redis://[user:password@]host[:port][/database], or rediss:// for TLS " +
		"(special characters in user and password must be percent-encoded)")
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || !plainHost(u) {
		return nil, malformed
	}
	query, err := url.ParseQuery(u.RawQuery) // u.Query would drop what does not parse
	if err != nil {
		return nil, malformed
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("a parameter is not supported; the supported ones are %s", strings.Join(parameters, ", "))
		}
	}
	o, err := redis.ParseURL(raw)
	if err != nil || o.DB < 0 {
		return nil, malformed
	}
	return o, nil
}

// plainHost reports whether what was taken for host and port can be nothing else. The host is
// looked up, and shown with every failure of the node, so it must not be a piece of a password
// whose special characters made the parser see the end of user and password too early.
func plainHost(u *url.URL) bool {
	if u.Host == "" || u.Fragment != "" || strings.Contains(u.Path+u.RawQuery, "@") {
		return false
	}
	host, port := u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return false
	}
	if strings.HasPrefix(u.Host, "[") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.' && r != '_'
	})
}

// tuned sets what makes a client fit for locks: no command or dial is tried twice, no call
// outlasts the node timeout, no greeting that older servers do not know.
func tuned(o *redis.Options, nodeTimeout time.Duration) *redis.Options {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = 10 * nodeTimeout // of greetings; calls are bounded otherwise
	o.ReadTimeout = 10 * nodeTimeout
	o.WriteTimeout = nodeTimeout
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PoolSize = 8          // the worker uses one at a time, and tries another
	o.PipelinePoolSize = -1 // no second pool, which would be dialled after the first failed
	return o
}

// counters has the count of connections of each client that was given to New. A client keeps its
// hooks for ever, so it gets one, however many Lockers are made over it.
var counters sync.Map // of weak.Pointer[redis.Client] to *atomic.Uint64

// dialsOf returns the count of connections that a client makes from now on. It stays 0 for a client
// whose hooks no dial passes, such as a clone by WithTimeout.
func dialsOf(client *redis.Client) *atomic.Uint64 {
	id := weak.Make(client)
	dials, known := counters.LoadOrStore(id, new(atomic.Uint64))
	count := dials.(*atomic.Uint64)
	if !known {
		client.AddHook(remote.CountDials(count))
		runtime.AddCleanup(client, func(id weak.Pointer[redis.Client]) { counters.Delete(id) }, id)
	}
	return count
}

// nameClients names the nodes behind given clients by address, or by position where a client
// has no single address.
func nameClients(clients []redis.UniversalClient) ([]string, error) {
	if len(clients) == 0 {
		return nil, errors.New("redlock: clients: no nodes given; 1 or more are needed, best an odd number")
	}
	names := make([]string, len(clients))
	addrs := make([]string, len(clients))
	for i, c := range clients {
		if c == nil || reflect.ValueOf(c).Kind() == reflect.Pointer && reflect.ValueOf(c).IsNil() {
			return nil, fmt.Errorf("redlock: clients[%d]: is nil", i)
		}
		for j := range i {
			if reflect.TypeOf(c).Comparable() && clients[j] == c {
				return nil, fmt.Errorf("redlock: clients[%d] and clients[%d]: the same client; each must lead to an independent node", j, i)
			}
		}
		if ring, ok := c.(*redis.Ring); ok && len(ring.Options().Addrs) > 1 {
			return nil, fmt.Errorf("redlock: clients[%d]: a Ring of %d servers is not one node; give one client for each server", i, len(ring.Options().Addrs))
		}
		names[i] = fmt.Sprintf("node %d", i)
		single, ok := c.(*redis.Client)
		switch {
		case !ok:
		case single.Options().Network == "unix":
			addrs[i] = single.Options().Addr
		case strings.Contains(single.Options().Addr, ":"): // not so with sentinels, who tell the address later
			names[i], addrs[i] = single.Options().Addr, single.Options().Addr
		}
	}
	return names, checkDistinct("clients", addrs)
}

// checkDistinct refuses the same host and port given twice: one server must not vote twice,
// not under another database number either. Empty addresses are not known and not compared.
func checkDistinct(argument string, addrs []string) error {
	seen := make(map[string]int)
	for i, addr := range addrs {
		if addr == "" {
			continue
		}
		addr = canonical(addr)
		if j, ok := seen[addr]; ok {
			return fmt.Errorf("redlock: %s[%d] and %s[%d]: both are %s; each must be an independent node", argument, j, argument, i, addr)
		}
		seen[addr] = i
	}
	return nil
}

// canonical spells an address in one way: lower case, IP addresses in their short form.
func canonical(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // the path of a socket
	}
	host = strings.TrimSuffix(host, ".")
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}
