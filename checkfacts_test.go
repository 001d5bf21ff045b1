package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestInfoIsReadForWhatTheNodeIs(t *testing.T) {
	for want, text := range map[string]string{
		"redis 7.0.15":                           "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n",
		"valkey 8.0.1":                           "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n",
		"memurai 4.2.3 (redis 7.4.9), Developer": "memurai_edition:Memurai Developer\r\nmemurai_version:4.2.3\r\nredis_version:7.4.9\r\nredis_mode:standalone\r\n",
		"memurai 4.2.3":                          "memurai_version:4.2.3\r\n",
		"dragonfly df-v1.23.0":                   "redis_version:7.2.0\r\ndragonfly_version:df-v1.23.0\r\n",
		unknown:                                  "garbage\r\n\r\n:x\r\nvalkey_version:\r\n",
	} {
		f := factsOf(parseInfo(text), nil)
		require.Equal(t, want, f.Version)
		require.Equal(t, want == "memurai 4.2.3 (redis 7.4.9), Developer", f.developer())
	}
}

func TestInfoAndConfigAreReadForHowTheNodeIsSetUp(t *testing.T) {
	info := "run_id:abc\r\nrole:slave\r\nuptime_in_seconds:90\r\nconnected_clients:12\r\nmaxclients:100\r\nmaxmemory:1024\r\n" +
		"maxmemory_policy:volatile-lru\r\naof_enabled:1\r\nconnected_slaves:2\r\ncluster_enabled:1\r\n"
	config := make(map[string]string)
	readConfig(config, []any{"maxclients", "200", "odd"}) // INFO comes first
	readConfig(config, map[any]any{"appendfsync": "everysec", 7: "x", "y": 8})
	readConfig(config, "nothing of the kind")
	f := factsOf(parseInfo(info), config)
	require.True(t, f.cluster)
	require.Equal(t, NodeReport{
		Version: unknown, RunID: "abc", Role: "slave", Uptime: 90 * time.Second, RoundTrip: -1, ClockError: -1,
		Persistence: "appendfsync everysec", Eviction: "volatile-lru", MaxMemory: 1024, Connections: 12, MaxConnections: 100, Replicas: 2,
	}, f.NodeReport)

	older := factsOf(nil, map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "0", "maxclients": "50", "appendonly": "no"})
	require.Equal(t, "noeviction", older.Eviction)
	require.Zero(t, older.MaxMemory)
	require.Equal(t, 50, older.MaxConnections)
	require.Equal(t, "no append-only file", older.Persistence)
	require.True(t, factsOf(parseInfo("redis_mode:cluster"), nil).cluster)
}

func TestWhatIsNotToldIsUnknown(t *testing.T) {
	want := NodeReport{
		Version: unknown, RunID: unknown, Role: unknown, Uptime: -1, RoundTrip: -1, ClockError: -1,
		Persistence: unknown, Eviction: unknown, MaxMemory: -1, Connections: -1, MaxConnections: -1, Replicas: -1,
	}
	require.Equal(t, want, factsOf(nil, nil).NodeReport)
	require.Equal(t, want, factsOf(parseInfo("uptime_in_seconds:-3\nmaxmemory:x\naof_enabled:2\nrole:\n"), nil).NodeReport)
	for told, persistent := range map[[3]string]string{
		{"1", "", ""}: unknown, {"", "yes", ""}: unknown, {"", "", "always"}: unknown,
		{"1", "", "always"}: "appendfsync always", {"", "yes", "always"}: "appendfsync always",
		{"0", "", ""}: "no append-only file", {"0", "", "always"}: "no append-only file",
	} {
		require.Equal(t, persistent, persistence(told[0], told[1], told[2]), "%v", told)
	}
}

func TestTheTimeOfDayIsReadStrictly(t *testing.T) {
	got, ok := readTime([]any{"1700000000", "250000"})
	require.True(t, ok)
	require.Equal(t, 1700000000*time.Second+250*time.Millisecond, got)
	for _, bad := range []any{nil, "1", []any{}, []any{"1"}, []any{"1", "2", "3"}, []any{"x", "1"}, []any{"1", "x"}, []any{"-1", "1"},
		[]any{"1", "1000000"}, []any{"9223372036854775807", "1"}, []any{int64(1), int64(2)}} {
		_, ok := readTime(bad)
		require.False(t, ok, "%v", bad)
	}
}

func TestADenialIsToldFromTheServersWords(t *testing.T) {
	for text, want := range map[string]denial{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                     commandDenied, // 7.0
		"NOPERM this user has no permissions to run the 'set' command or its subcommand":                                       commandDenied, // 6.0
		"NOPERM User key channel has no permissions to run the 'set' command":                                                  commandDenied, // 7.2, Valkey
		"ERR The user executing the script can't run this command or subcommand script: 0beef, on @user_script:1.":             commandDenied,
		"ERR ACL failure in script: User x has no permissions to run the 'pexpire' command script: 0beef":                      commandDenied,
		"ERR Error running script (call to f_0): @user_script:1: NOPERM this user has no permissions to run the 'get' command": commandDenied,
		"ERR unknown command 'SCRIPT', with args beginning with: 'load'":                                                       commandDenied,
		"ERR Unknown Redis command called from script script: 0beef":                                                           commandDenied,
		"NOPERM": commandDenied,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                            keyDenied,
		"NOPERM No permissions to access a key":                                                                      keyDenied,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": keyDenied,
		"NOPERM this user has no permissions to access one of the channels used as arguments":                        channelDenied,
		"NOPERM No permissions to access a channel":                                                                  channelDenied,
		"ERR The user executing the script can't publish to the channel mentioned in the command":                    channelDenied,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                    allowed,
		"READONLY You can't write against a read only replica.":                                                      allowed,
		"NOSCRIPT No matching script. Please use EVAL.":                                                              allowed,
	} {
		require.Equal(t, want, denialIn(replied(text)), text)
	}
	require.Equal(t, allowed, denialIn(nil))
	require.Equal(t, allowed, denialIn(errors.New("timed out")))
	require.Equal(t, commandDenied, denialIn(unexpected(releaseOp, text("NOPERM this user has no permissions to run the 'get' command")).err), "the advice names keys")
}

func TestTheProbeKeysOutcomesAreReadByTheSameRulesAsALocks(t *testing.T) {
	require.NoError(t, setOutcome(told{reply: "OK"}))
	require.ErrorIs(t, setOutcome(told{reply: nil}), errOtherToken)
	require.ErrorContains(t, setOutcome(told{reply: int64(1)}), "unexpected reply")
	require.NoError(t, renewOutcome(told{reply: []any{int64(1), int64(4000), int64(0)}}))
	require.ErrorIs(t, renewOutcome(told{reply: []any{int64(3)}}), errMissing)
	require.ErrorContains(t, renewOutcome(told{reply: "x"}), "unexpected reply")
	require.NoError(t, releaseOutcome(told{reply: []any{int64(1)}}))
	require.ErrorIs(t, releaseOutcome(told{reply: []any{int64(2)}}), errMissing)
	require.ErrorContains(t, releaseOutcome(told{reply: []any{"NOPERM"}}), "NOPERM")
	require.ErrorContains(t, releaseOutcome(told{reply: []any{}}), "unexpected reply")
	failure := replied("OOM")
	for _, outcome := range []func(told) error{setOutcome, renewOutcome, releaseOutcome} {
		require.Equal(t, failure, outcome(told{err: failure}))
	}
}

// FuzzInfo feeds whatever a node may send; what comes of it is fit to be shown, in range, and can be judged.
func FuzzInfo(f *testing.F) {
	f.Add("memurai_edition:Memurai Developer\r\nmemurai_version:4.2.3\r\nredis_version:7.4.9\r\nuptime_in_seconds:864000\r\n", "maxclients", "100")
	f.Add("uptime_in_seconds:99999999999999999\nmaxclients:1\nconnected_clients:99999999999\n:\n::\n", "", "")
	f.Add("run_id:\x00\xff\u2028x\nrole:slave\nmaxmemory_policy:"+strings.Repeat("é", 300), "appendonly", "\n")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		config := make(map[string]string)
		readConfig(config, []any{name, value})
		s := soundSurvey(3)
		s.nodes[1] = factsOf(parseInfo(text), config)
		n := s.nodes[1]
		for _, shown := range []string{n.Version, n.RunID, n.Role, n.Persistence, n.Eviction} {
			require.NotEmpty(t, shown)
			require.Less(t, len(shown), 1000)
			require.False(t, strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", shown)
		}
		for _, number := range []int64{int64(n.Uptime), n.MaxMemory, int64(n.Connections), int64(n.MaxConnections), int64(n.Replicas)} {
			require.GreaterOrEqual(t, number, int64(-1))
		}
		s.findings()
	})
}
