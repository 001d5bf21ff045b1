package redlock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soundSurvey is of n nodes that nothing can be said against.
func soundSurvey(n int) *survey {
	s := &survey{quorum: majority(n), nodeTimeout: 200 * time.Millisecond, drift: defaultConfig().drift}
	for i := range n {
		f := factsOf(parseInfo(fmt.Sprintf("redis_version:7.0.15\nrun_id:run%d\nrole:master\nuptime_in_seconds:%d\nmaxmemory:0\n"+
			"maxmemory_policy:noeviction\nconnected_clients:3\nmaxclients:10000\nconnected_slaves:0\naof_enabled:1\n", i, 90_000*(i+1))),
			map[string]string{"appendfsync": "always"})
		f.Node = nodeAt(i)
		f.RoundTrip, f.ClockOffset, f.ClockError = time.Millisecond, -time.Millisecond, time.Millisecond/2
		f.expiry = expiry{known: true, millis: 4566, within: time.Millisecond}
		s.nodes = append(s.nodes, f)
	}
	return s
}

func nodeAt(i int) string { return fmt.Sprintf("redis%d:6379", i) }

type findingCase struct {
	name  string
	nodes int // 0: three
	spoil func(s *survey)
	want  []string // "severity code node", the node by its index
}

// replied is an error as a node's answer.
func replied(text string) error { return explain(replyError(text)) }

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func onNode(i int, spoil func(f *facts)) func(*survey) {
	return func(s *survey) { spoil(&s.nodes[i]) }
}

func onAll(spoil func(i int, f *facts)) func(*survey) {
	return func(s *survey) {
		for i := range s.nodes {
			spoil(i, &s.nodes[i])
		}
	}
}

func uptimes(edition string, d ...time.Duration) func(*survey) {
	return onAll(func(i int, f *facts) { f.edition, f.Uptime = edition, d[i] })
}

func offsets(d ...time.Duration) func(*survey) {
	return onAll(func(i int, f *facts) { f.ClockOffset = d[i] })
}

const (
	day   = 24 * time.Hour
	dev   = "Memurai Developer"
	noKey = "NOPERM this user has no permissions to access one of the keys used as arguments"
	noRun = "NOPERM this user has no permissions to run the 'x' command"
	inRun = "ERR The user executing the script can't run this command or subcommand script: 0beef, on @user_script:1."
)

var devInfo = []string{"info connections-limit 0", "info connections-limit 1", "info connections-limit 2"}

// findingCases has for each code cases where it is found and, right beside the boundary, where it is not.
var findingCases = map[string][]findingCase{
	"unreachable": {
		{name: "a minority", spoil: onNode(1, func(f *facts) { f.Err = errors.New("refused") }), want: []string{"warning unreachable 1"}},
		{name: "a majority", spoil: onAll(func(i int, f *facts) {
			if i > 0 {
				f.Err = errors.New("refused")
			}
		}), want: []string{"critical unreachable 1", "critical unreachable 2"}},
		{name: "none"},
	},
	"duplicate-server": {
		{name: "twice", spoil: onNode(2, func(f *facts) { f.RunID = "run0" }), want: []string{"critical duplicate-server 2"}},
		{name: "three times", spoil: onAll(func(i int, f *facts) { f.RunID = "x" }), want: []string{"critical duplicate-server 1", "critical duplicate-server 2"}},
		{name: "both unknown", spoil: onAll(func(i int, f *facts) { f.RunID = unknown }),
			want: []string{"warning no-run-id 0", "warning no-run-id 1", "warning no-run-id 2"}},
	},
	"even-nodes": {{name: "4", nodes: 4, want: []string{"warning even-nodes -"}}, {name: "2", nodes: 2, want: []string{"warning even-nodes -"}}, {name: "5", nodes: 5}},
	"single-node": {
		{name: "1", nodes: 1, want: []string{"info single-node -"}}, {name: "3"},
	},
	"same-host": {
		{name: "two", spoil: onNode(2, func(f *facts) { f.Node = "REDIS0:1" }), want: []string{"warning same-host 0"}},
		{name: "loopback, however it is written", spoil: onAll(func(i int, f *facts) {
			f.Node = []string{"localhost:1", "[::1]:2", "127.0.0.9:3"}[i]
		}), want: []string{"warning same-host 0"}},
		{name: "addresses unknown", spoil: onAll(func(i int, f *facts) { f.Node = fmt.Sprintf("node %d", i) })},
		{name: "addresses of one network", spoil: onAll(func(i int, f *facts) { f.Node = fmt.Sprintf("10.0.0.%d:6379", i) })},
	},
	"replica": {
		{name: "by INFO", spoil: onNode(0, func(f *facts) { f.Role = "slave" }), want: []string{"critical replica 0"}},
		{name: "by its refusal", spoil: onNode(0, func(f *facts) { f.Role, f.set = unknown, replied("READONLY You can't write") }), want: []string{"critical replica 0"}},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.Role = unknown })},
	},
	"has-replicas": {
		{name: "one", spoil: onNode(0, func(f *facts) { f.Replicas = 1 }), want: []string{"warning has-replicas 0"}},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.Replicas = -1 })},
	},
	"cluster-mode": {
		{name: "by INFO", spoil: onNode(0, func(f *facts) { f.cluster, f.set = true, replied("CLUSTERDOWN Hash slot not served") }), want: []string{"critical cluster-mode 0"}},
		{name: "by its refusal", spoil: onNode(0, func(f *facts) { f.set = replied("MOVED 1 10.0.0.1:6379") }), want: []string{"critical cluster-mode 0"}},
		{name: "standalone", spoil: onNode(0, func(f *facts) { f.cluster = false })},
	},
	"old-version": {
		{name: "no SET NX PX", spoil: onNode(0, func(f *facts) { f.redisVersion = "2.6.11" }), want: []string{"critical old-version 0"}},
		{name: "the first with it", spoil: onNode(0, func(f *facts) { f.redisVersion = "2.6.12" }), want: []string{"warning old-version 0"}},
		{name: "no ZPOPMIN", spoil: onNode(0, func(f *facts) { f.redisVersion = "4.0.14" }), want: []string{"warning old-version 0"}},
		{name: "no lists, short", spoil: onNode(0, func(f *facts) { f.redisVersion = "4" }), want: []string{"warning old-version 0"}},
		{name: "the first with lists", spoil: onNode(0, func(f *facts) { f.redisVersion = "5.0" })},
		{name: "two digits", spoil: onNode(0, func(f *facts) { f.redisVersion = "10.0.0" })},
		{name: "no version", spoil: onNode(0, func(f *facts) { f.redisVersion = "" })},
		{name: "a look-alike's", spoil: onNode(0, func(f *facts) { f.product, f.redisVersion = "kvrocks", "4.0.0" })},
	},
	"eviction": {
		{name: "all keys", spoil: onNode(0, func(f *facts) { f.Eviction, f.MaxMemory = "allkeys-lru", 1 }), want: []string{"critical eviction 0"}},
		{name: "volatile keys", spoil: onNode(0, func(f *facts) { f.Eviction, f.MaxMemory = "volatile-ttl", 1 }), want: []string{"critical eviction 0"}},
		{name: "without a limit", spoil: onNode(0, func(f *facts) { f.Eviction = "allkeys-lru" }), want: []string{"warning eviction 0"}},
		{name: "limit unknown", spoil: onNode(0, func(f *facts) { f.Eviction, f.MaxMemory = "allkeys-lru", -1 }), want: []string{"warning eviction 0"}},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.Eviction, f.MaxMemory = unknown, 1 })},
		{name: "none", spoil: onNode(0, func(f *facts) { f.MaxMemory = 1 })},
	},
	"connections-limit": {
		{name: "at 90 %", spoil: onNode(0, func(f *facts) { f.Connections, f.MaxConnections = 9, 10 }), want: []string{"warning connections-limit 0"}},
		{name: "below", spoil: onNode(0, func(f *facts) { f.Connections, f.MaxConnections = 899, 1000 })},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.Connections, f.MaxConnections = -1, -1 })},
		{name: "limit unknown", spoil: onNode(0, func(f *facts) { f.Connections, f.MaxConnections = 5, -1 })},
		{name: "Developer", spoil: onNode(0, func(f *facts) { f.edition = dev }), want: []string{"info connections-limit 0"}},
	},
	"uptime-limit": {
		{name: "one past 9 days", spoil: uptimes(dev, 9*day+time.Second, 5*day, 2*day), want: append([]string{"warning uptime-limit 0"}, devInfo...)},
		{name: "at 9 days", spoil: uptimes(dev, 9*day, 5*day, 2*day), want: devInfo},
		{name: "two past 9 days", spoil: uptimes(dev, 9*day+time.Second, 5*day, 9*day+2*time.Hour), want: append([]string{"critical uptime-limit 0", "critical uptime-limit 2"}, devInfo...)},
		{name: "the only one", nodes: 1, spoil: uptimes(dev, 10*day), want: []string{"critical uptime-limit 0", "info connections-limit 0", "info single-node -"}},
		{name: "two of five", nodes: 5, spoil: func(s *survey) {
			uptimes("", 3*day, 3*day, 3*day, 3*day, 3*day)(s)
			for _, i := range []int{1, 2} {
				s.nodes[i].edition, s.nodes[i].Uptime = dev, 9*day+time.Hour
			}
		}, want: []string{"critical uptime-limit 1", "critical uptime-limit 2", "info connections-limit 1", "info connections-limit 2"}},
		{name: "started together", spoil: uptimes(dev, day, 2*day, 2*day-10*time.Minute), want: append([]string{"warning uptime-limit 1"}, devInfo...)},
		{name: "started apart", spoil: uptimes(dev, day, 2*day, 2*day-10*time.Minute-time.Second), want: devInfo},
		{name: "uptimes unknown", spoil: uptimes(dev, -1, -1, -1), want: devInfo},
		{name: "another edition", spoil: uptimes("Memurai Enterprise", 20*day, 20*day, 20*day)},
	},
	"no-key-permission": {
		{name: "no SET", spoil: onNode(0, func(f *facts) { f.set, f.renewal, f.release = replied(noRun), errMissing, errMissing }), want: []string{"critical no-key-permission 0"}},
		{name: "not this key", spoil: onNode(0, func(f *facts) { f.set, f.renewal, f.release = replied(noKey), replied(noKey), replied(noKey) }), want: []string{"warning no-key-permission 0"}},
		{name: "another refusal", spoil: onNode(0, func(f *facts) {
			f.set, f.renewal, f.release = replied("OOM command not allowed"), errMissing, errMissing
		}), want: []string{"critical probe-failed 0"}},
	},
	"no-script-permission": {
		{name: "SCRIPT LOAD", spoil: onNode(0, func(f *facts) { f.scriptLoad = replied(noRun) }), want: []string{"critical no-script-permission 0"}},
		{name: "EVALSHA", spoil: onNode(0, func(f *facts) { f.renewal = replied(noRun) }), want: []string{"critical no-script-permission 0"}},
		{name: "a command within renew", spoil: onNode(0, func(f *facts) { f.renewal = replied(inRun) }), want: []string{"critical no-script-permission 0"}},
		{name: "a command within release", spoil: onNode(0, func(f *facts) { f.release = unexpected(releaseOp, inRun).err }), want: []string{"critical no-script-permission 0"}},
		{name: "never loaded", spoil: onNode(0, func(f *facts) { f.renewal = replied("NOSCRIPT No matching script") }), want: []string{"critical no-script-permission 0"}},
		{name: "EVALSHA, and no right to the key", spoil: onNode(0, func(f *facts) { f.set, f.renewal, f.release = replied(noKey), replied(noRun), replied(noRun) }),
			want: []string{"critical no-script-permission 0", "warning no-key-permission 0"}},
		{name: "renamed", spoil: onNode(0, func(f *facts) { f.renewal = replied("ERR unknown command 'evalsha'") }), want: []string{"critical no-script-permission 0"}},
		{name: "only the key", spoil: onNode(0, func(f *facts) { f.renewal, f.set = replied(noKey), replied(noKey) }), want: []string{"warning no-key-permission 0"}},
	},
	"no-publish-permission": {
		{name: "the channel", spoil: onNode(0, func(f *facts) { f.publish = replied("NOPERM No permissions to access a channel") }), want: []string{"warning no-publish-permission 0"}},
		{name: "the command", spoil: onNode(0, func(f *facts) { f.publish = replied(noRun) }), want: []string{"warning no-publish-permission 0"}},
		{name: "allowed"},
	},
	"probe-failed": {
		{name: "out of memory", spoil: onNode(0, func(f *facts) {
			f.set, f.renewal, f.release = replied("OOM command not allowed"), errMissing, errMissing
		}), want: []string{"critical probe-failed 0"}},
		{name: "the script fails", spoil: onNode(0, func(f *facts) { f.renewal = replied("ERR Error running script") }), want: []string{"critical probe-failed 0"}},
		{name: "another answer", spoil: onNode(0, func(f *facts) { f.release = unexpected(releaseOp, "x").err }), want: []string{"critical probe-failed 0"}},
		{name: "the key vanished", spoil: onNode(0, func(f *facts) { f.renewal, f.release = errMissing, errMissing }), want: []string{"critical probe-failed 0"}},
		{name: "the key expired at once", spoil: onNode(0, func(f *facts) { f.expiry.millis, f.renewal, f.release = -2, errMissing, errMissing }), want: []string{"critical no-expiry-precision 0"}},
		{name: "a replica refuses", spoil: onNode(0, func(f *facts) { f.Role, f.set, f.renewal = "slave", replied("READONLY x"), replied("READONLY x") }), want: []string{"critical replica 0"}},
	},
	"no-expiry-precision": {
		{name: "rounded up", spoil: onNode(0, func(f *facts) { f.expiry.millis = 5000 }), want: []string{"critical no-expiry-precision 0"}},
		{name: "rounded down", spoil: onNode(0, func(f *facts) { f.expiry.millis = 4000 }), want: []string{"critical no-expiry-precision 0"}},
		{name: "for ever", spoil: onNode(0, func(f *facts) { f.expiry.millis, f.expiry.within = -1, time.Minute }), want: []string{"critical no-expiry-precision 0"}},
		{name: "one too many", spoil: onNode(0, func(f *facts) { f.expiry.millis = 4568 }), want: []string{"critical no-expiry-precision 0"}},
		{name: "just all of it", spoil: onNode(0, func(f *facts) { f.expiry.millis = 4567 })},
		{name: "the least with the allowance of 47.67 ms", spoil: onNode(0, func(f *facts) { f.expiry.millis, f.expiry.within = 4510, 10*time.Millisecond })},
		{name: "less than that", spoil: onNode(0, func(f *facts) { f.expiry.millis, f.expiry.within = 4509, 10*time.Millisecond }), want: []string{"critical no-expiry-precision 0"}},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.expiry = expiry{} })},
	},
	"no-run-id": {
		{name: "not told", spoil: onNode(0, func(f *facts) { f.RunID = unknown }), want: []string{"warning no-run-id 0"}},
		{name: "unreachable", spoil: onNode(0, func(f *facts) { f.RunID, f.Err = unknown, errors.New("refused") }), want: []string{"warning unreachable 0"}},
	},
	"forgets-on-restart": {
		{name: "no file", spoil: onNode(0, func(f *facts) { f.Persistence = "no append-only file" }), want: []string{"info forgets-on-restart 0"}},
		{name: "the last second", spoil: onNode(0, func(f *facts) { f.Persistence = "appendfsync everysec" }), want: []string{"info forgets-on-restart 0"}},
		{name: "without the guard", spoil: func(s *survey) { s.guard, s.nodes[0].Persistence = GuardOff, "appendfsync everysec" }, want: []string{"critical forgets-on-restart 0"}},
		{name: "unseen by the guard", spoil: onNode(0, func(f *facts) { f.Persistence, f.RunID = "appendfsync no", unknown }), want: []string{"critical forgets-on-restart 0", "warning no-run-id 0"}},
		{name: "always written, without the guard", spoil: func(s *survey) { s.guard = GuardOff }},
		{name: "unknown", spoil: func(s *survey) { s.guard, s.nodes[0].Persistence = GuardOff, unknown }},
	},
	"restarted-recently": {
		{name: "young", spoil: onNode(0, func(f *facts) { f.Uptime = time.Minute - time.Second }), want: []string{"warning restarted-recently 0"}},
		{name: "old", spoil: onNode(0, func(f *facts) { f.Uptime = time.Minute })},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.Uptime = -1 })},
		{name: "younger than WithMaxTTL", spoil: func(s *survey) { s.maxTTL, s.nodes[0].Uptime = time.Hour, time.Hour-time.Second }, want: []string{"warning restarted-recently 0"}},
		{name: "as old as WithMaxTTL", spoil: func(s *survey) { s.maxTTL, s.nodes[0].Uptime = time.Hour, time.Hour }},
		{name: "all", spoil: onAll(func(i int, f *facts) { f.Uptime = 0 }), want: []string{"info restarted-recently 0", "info restarted-recently 1", "info restarted-recently 2"}},
		{name: "seen by the guard", spoil: onNode(0, func(f *facts) { f.restartSeen = 59 * time.Second }), want: []string{"warning restarted-recently 0"}},
		{name: "seen long ago", spoil: onNode(0, func(f *facts) { f.restartSeen = time.Minute })},
	},
	"clock-offset": {
		{name: "ahead", spoil: onNode(1, func(f *facts) { f.ClockOffset = time.Second + 600*time.Microsecond }), want: []string{"warning clock-offset 1"}},
		{name: "behind", spoil: onNode(1, func(f *facts) { f.ClockOffset = -time.Second - 600*time.Microsecond }), want: []string{"warning clock-offset 1"}},
		{name: "within the error", spoil: onNode(1, func(f *facts) { f.ClockOffset = time.Second + 500*time.Microsecond })},
		{name: "not measured", spoil: onNode(1, func(f *facts) { f.ClockOffset, f.ClockError = 9*time.Second, -1 })},
		{name: "all alike", spoil: offsets(5*time.Second, 5500*time.Millisecond, 6*time.Second), want: []string{"warning clock-offset -"}},
		{name: "all, apart", spoil: offsets(5*time.Second, 5500*time.Millisecond, 6100*time.Millisecond), want: []string{"warning clock-offset 0", "warning clock-offset 1", "warning clock-offset 2"}},
		{name: "all, both ways", spoil: offsets(-5*time.Second, 5*time.Second, 5*time.Second), want: []string{"warning clock-offset 0", "warning clock-offset 1", "warning clock-offset 2"}},
		{name: "two of three", spoil: offsets(5*time.Second, 5*time.Second, 0), want: []string{"warning clock-offset 0", "warning clock-offset 1"}},
		{name: "the only one", nodes: 1, spoil: offsets(5 * time.Second), want: []string{"warning clock-offset 0", "info single-node -"}},
	},
	"node-timeout": {
		{name: "above a tenth", spoil: onNode(0, func(f *facts) { f.RoundTrip = 20*time.Millisecond + 1 }), want: []string{"warning node-timeout 0"}},
		{name: "a tenth", spoil: onNode(0, func(f *facts) { f.RoundTrip = 20 * time.Millisecond })},
		{name: "unknown", spoil: onNode(0, func(f *facts) { f.RoundTrip = -1 })},
	},
}

func TestEveryCodeIsFoundWhereItShouldBeAndNowhereElse(t *testing.T) {
	for _, r := range rules {
		cases := findingCases[r.code]
		hits, misses := 0, 0
		for _, c := range cases {
			t.Run(r.code+"/"+c.name, func(t *testing.T) {
				s := soundSurvey(cmp.Or(c.nodes, 3))
				if c.spoil != nil {
					c.spoil(s)
				}
				index := map[string]string{"": "-"}
				for i := range s.nodes {
					index[s.nodes[i].Node] = fmt.Sprint(i)
				}
				var got []string
				for _, f := range s.findings() {
					got = append(got, fmt.Sprint(f.Severity, " ", f.Code, " ", index[f.Node]))
					require.NotContains(t, f.Text, "%!")
					require.Greater(t, len(f.Text), 40)
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(c.want))
				require.Equal(t, want, got)
			})
			if slices.ContainsFunc(c.want, func(w string) bool { return strings.Contains(w, " "+r.code+" ") }) {
				hits++
			} else {
				misses++
			}
		}
		require.True(t, hits > 0 && misses > 0, "%s: %d cases where it is found, %d where not", r.code, hits, misses)
	}
	require.Len(t, findingCases, len(rules))
}

func TestTheWorstFindingsComeFirstThenTheFirstNodesThenByCode(t *testing.T) {
	s := soundSurvey(4)
	s.nodes[0].Replicas, s.nodes[0].Eviction = 1, "allkeys-lru"
	s.nodes[1].Uptime, s.nodes[1].Persistence = 0, "appendfsync no"
	s.nodes[2].Role = "slave"
	s.nodes[3].cluster = true
	var got []string
	for _, f := range s.findings() {
		got = append(got, fmt.Sprint(f.Severity, " ", f.Node, " ", f.Code))
	}
	require.Equal(t, []string{
		"critical redis2:6379 replica", "critical redis3:6379 cluster-mode",
		"warning  even-nodes", "warning redis0:6379 eviction", "warning redis0:6379 has-replicas", "warning redis1:6379 restarted-recently",
		"info redis1:6379 forgets-on-restart",
	}, got)
}

// textOf is the only text of a code.
func textOf(t *testing.T, s *survey, code string) (text string) {
	t.Helper()
	for _, f := range s.findings() {
		if f.Code == code {
			require.Empty(t, text)
			text = f.Text
		}
	}
	return text
}

func TestTextsNameWhatIsBesideTheNode(t *testing.T) {
	for _, c := range []struct {
		code  string
		nodes int
		spoil func(s *survey)
		want  string
	}{
		{"duplicate-server", 3, onNode(2, func(f *facts) { f.RunID = "run0" }), "the same server as redis0:6379 "},
		{"same-host", 3, onNode(2, func(f *facts) { f.Node = "redis0:7" }), "as redis0:7:"},
		{"even-nodes", 4, nil, "4 nodes survive the failure of 1, no more than 3 would"},
		{"even-nodes", 6, nil, "6 nodes survive the failure of 2, no more than 5 would"},
		{"uptime-limit", 3, uptimes(dev, 2*day, 2*day, 5*day), "within 10m0s of redis1:6379,"},
		{"uptime-limit", 3, uptimes(dev, 9*day+12*time.Hour, 2*day, 5*day), "has run for 9.5 days"},
		{"unreachable", 3, onNode(0, func(f *facts) { f.Err = errors.New("dial\ntcp: refused") }), "dial tcp: refused; the others are a quorum"},
		{"eviction", 3, onNode(0, func(f *facts) { f.Eviction, f.MaxMemory = "volatile-lru", 1000 }), "volatile-lru can drop lock keys before their time, as every one has a ttl, once 1000 bytes"},
		{"no-expiry-precision", 3, onNode(0, func(f *facts) { f.expiry.millis = 4000 }), "had 4000 ms left after 1ms at most"},
		{"no-expiry-precision", 3, onNode(0, func(f *facts) { f.expiry.millis = -1 }), "has no expiry"},
		{"clock-offset", 3, onNode(0, func(f *facts) { f.ClockOffset = -5 * time.Second }), "its clock is 5s behind this machine's, give or take 500µs"},
		{"clock-offset", 3, offsets(5*time.Second, 5*time.Second, 5*time.Second), "all nodes are 5s ahead of this machine's clock"},
		{"node-timeout", 3, onNode(0, func(f *facts) { f.RoundTrip = 31 * time.Millisecond }), "WithNodeTimeout(310ms)"},
		{"connections-limit", 3, onNode(0, func(f *facts) { f.Connections, f.MaxConnections = 95, 100 }), "95 of at most 100 clients"},
		{"old-version", 3, onNode(0, func(f *facts) { f.Version, f.redisVersion = "redis 2.4.0", "2.4.0" }), "redis 2.4.0 lacks commands that locks need; 2.6.12 or later"},
		{"has-replicas", 3, onNode(0, func(f *facts) { f.Replicas = 2 }), "has 2 connected"},
		{"no-script-permission", 3, onNode(0, func(f *facts) { f.renewal = replied(noRun) }), "may not run the renew script (" + noRun + ")"},
		{"probe-failed", 3, onNode(0, func(f *facts) { f.set = replied("OOM command not allowed") }), "SET ended with: OOM command not allowed (the node is out of memory)"},

		{"restarted-recently", 3, onNode(0, func(f *facts) { f.Uptime = 7 * time.Second }), "was started 7s ago: the guard withholds"},
		{"restarted-recently", 3, onNode(0, func(f *facts) { f.restartSeen = 7 * time.Second }), "restarted 7s ago, while this process ran: the guard withholds"},
		{"restarted-recently", 3, onNode(0, func(f *facts) { f.Uptime, f.RunID = 7*time.Second, unknown }), "its votes count, as it does not tell its run_id"},
		{"restarted-recently", 3, func(s *survey) { s.guard, s.nodes[0].Uptime = GuardOff, 0 }, "its votes count (GuardOff)"},
		{"restarted-recently", 1, func(s *survey) { s.together, s.nodes[0].Uptime = true, 0 }, "takes for a new deployment"},
		{"restarted-recently", 1, func(s *survey) { s.guard, s.nodes[0].Uptime = GuardStrict, 0 }, "the guard withholds"},
		{"restarted-recently", 1, onNode(0, func(f *facts) { f.restartSeen = 0 }), "the guard withholds"},
	} {
		s := soundSurvey(c.nodes)
		if c.spoil != nil {
			c.spoil(s)
		}
		require.Contains(t, textOf(t, s, c.code), c.want)
	}
}

func TestAFindingInJSONIsMadeOfWords(t *testing.T) {
	text, err := json.Marshal([]Finding{{Severity: Critical, Code: "replica", Node: "a:1", Text: "x"}, {Severity: Info}, {Severity: Warning}})
	require.NoError(t, err)
	require.Equal(t, `[{"severity":"critical","code":"replica","node":"a:1","text":"x"},{"severity":"info","code":"","node":"","text":""},`+
		`{"severity":"warning","code":"","node":"","text":""}]`, string(text))
	require.Equal(t, "severity 7", Severity(7).String())
}
