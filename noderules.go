package redlock

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The rules on how many nodes there are, and what they are and are set up to do.

func (s *survey) unreachable(f *facts) remark {
	switch {
	case f.Err == nil:
		return remark{}
	case s.count(func(f *facts) bool { return f.Err == nil }) >= s.quorum:
		return warning("%v; the others are a quorum, and have fewer failures to spare until it is back", clean(f.Err.Error()))
	}
	return critical("%v; no quorum is left, and no lock can be had, until enough nodes are back", clean(f.Err.Error()))
}

func (s *survey) duplicateServer(f *facts) remark {
	same := s.others(f, func(other *facts) bool { return other.RunID == f.RunID && f.RunID != unknown })
	if len(same) == 0 || s.isFirst(f, same) {
		return remark{}
	}
	return critical("is the same server as %s and votes more than once: its failure costs several votes at once; give the address of another one", same[0])
}

func (s *survey) evenNodes() remark {
	n := len(s.nodes)
	if n%2 == 1 {
		return remark{}
	}
	return warning("%d nodes survive the failure of %d, no more than %d would, and there is one more to fail; take one away or add one", n, n-s.quorum, n-1)
}

func (s *survey) singleNode() remark {
	if len(s.nodes) != 1 {
		return remark{}
	}
	return info("locks are as available and as safe as this one node is; three survive the failure of one")
}

func (s *survey) sameHost(f *facts) remark {
	host := hostOf(f.Node)
	same := s.others(f, func(other *facts) bool { return host != "" && hostOf(other.Node) == host })
	if len(same) == 0 || !s.isFirst(f, same) {
		return remark{}
	}
	return warning("is on the same host as %s: they fail together, and count as one; spread the nodes over hosts, except for tests", strings.Join(same, ", "))
}

// hostOf returns the host of an address in one spelling, "" where there is none.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(canonical(addr))
	ip, bad := netip.ParseAddr(host)
	switch {
	case err != nil:
		return ""
	case host == "localhost" || bad == nil && ip.IsLoopback():
		return "loopback"
	}
	return host
}

func (s *survey) replica(f *facts) remark {
	if f.Role != "slave" && !answered(f.set, "READONLY") {
		return remark{}
	}
	return critical("is a replica: what it is asked to store is refused, or lost at its next synchronisation; give the address of its primary, or make it one (REPLICAOF NO ONE)")
}

func (s *survey) hasReplicas(f *facts) remark {
	if f.Replicas <= 0 {
		return remark{}
	}
	return warning("has %d connected: a failover behind its address forgets the keys that were not replicated yet, and nobody sees it; use nodes without replicas, "+
		"or make sure that none of them is ever promoted", f.Replicas)
}

func (s *survey) clusterMode(f *facts) remark {
	if !f.cluster && !answered(f.set, "MOVED", "CLUSTERDOWN", "CROSSSLOT") {
		return remark{}
	}
	return critical("is in cluster mode: it refuses the keys of other nodes' slots, and fails over without a word; give independent nodes")
}

// answered reports whether a node answered with one of these errors.
func answered(err error, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// minVersion has SET NX PX in one command, beside scripts; waitVersion has ZPOPMIN, and scripts that write after
// having asked for the time, which the waiting lists need.
const (
	minVersion  = "2.6.12"
	waitVersion = "5.0.0"
)

func (s *survey) oldVersion(f *facts) remark {
	if !slices.Contains([]string{"redis", "valkey", "memurai"}, f.product) {
		return remark{} // the Redis that others stand in for says little about what they can do
	}
	switch {
	case isBelow(f.redisVersion, minVersion):
		return critical("%s lacks commands that locks need; %s or later is needed, %s or later makes waiting quick", f.Version, minVersion, waitVersion)
	case isBelow(f.redisVersion, waitVersion):
		return warning("%s keeps no waiting lists: locks work, but who waits there tries again and again; use %s or later", f.Version, waitVersion)
	}
	return remark{}
}

// isBelow compares versions, part by part; false for what is none.
func isBelow(version, least string) bool {
	parts := strings.Split(version, ".")
	for i, want := range strings.Split(least, ".") {
		have := 0
		if i < len(parts) {
			var err error
			if have, err = strconv.Atoi(parts[i]); err != nil {
				return false
			}
		}
		if want, _ := strconv.Atoi(want); have != want {
			return have < want
		}
	}
	return false
}

func (s *survey) eviction(f *facts) remark {
	const advice = "can drop lock keys before their time, as every one has a ttl"
	switch {
	case f.Eviction == "noeviction" || f.Eviction == unknown:
		return remark{}
	case f.MaxMemory > 0:
		return critical("maxmemory-policy %s %s, once %d bytes are in use: set noeviction", f.Eviction, advice, f.MaxMemory)
	}
	return warning("maxmemory-policy %s %s, where there is a maxmemory: set noeviction", f.Eviction, advice)
}

// developer reports whether a node is of an edition that has limits of its own.
func (f *facts) developer() bool { return f.edition == "Memurai Developer" }

func (s *survey) connectionsLimit(f *facts) remark {
	switch {
	case f.MaxConnections > 0 && int64(f.Connections)*10 >= int64(f.MaxConnections)*9:
		return warning("%d of at most %d clients are connected: more are refused, and with them this node's votes; raise maxclients, or find out who they are", f.Connections, f.MaxConnections)
	case f.developer():
		return info("this edition takes clients from at most 10 addresses: those of an eleventh machine are refused")
	}
	return remark{}
}

const (
	uptimeWarning = 9 * 24 * time.Hour // of ten days
	sameStart     = 10 * time.Minute
)

func (f *facts) nearsStop() bool { return f.developer() && f.Uptime > uptimeWarning }

func (s *survey) uptimeLimit(f *facts) remark {
	near := s.count((*facts).nearsStop)
	switch {
	case !f.developer() || f.Uptime < 0:
		return remark{}
	case f.nearsStop() && (near > 1 || len(s.nodes)-near < s.quorum):
		return critical("this edition stops after 10 days and this node has run for %v, as %d of %d nodes have: restart them now, one at a time, a ttl apart", days(f.Uptime), near, len(s.nodes))
	case f.nearsStop():
		return warning("this edition stops after 10 days and this node has run for %v: restart it at a time of your own choice", days(f.Uptime))
	}
	together := s.others(f, func(other *facts) bool {
		return other.developer() && other.Uptime >= 0 && (other.Uptime-f.Uptime).Abs() <= sameStart
	})
	if len(together) == 0 || !s.isFirst(f, together) {
		return remark{}
	}
	return warning("this edition stops after 10 days, and started within %v of %s, so they will stop together: restart them on different days", sameStart, strings.Join(together, ", "))
}

// days writes a long time as people do.
func days(d time.Duration) string {
	return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
}
