package redlock

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
)

const unknown = "unknown"

// facts is all that Check learned about one node.
type facts struct {
	NodeReport
	product, edition string // "redis", "memurai", … and the latter's edition; "" if unknown
	redisVersion     string // that it is compatible with, by its own account; "" if unknown
	cluster          bool
	restartSeen      time.Duration // so long ago the guard saw it restart; -1: it has not

	scriptLoad, publish   error // what the node answered; nil: it did as asked, or was not asked
	set, renewal, release error // of the probe key
	expiry                expiry
}

// expiry is what a node told of the probe key's life, at most within after it was set.
type expiry struct {
	known  bool
	millis int64 // as from PTTL
	within time.Duration
}

// products that tell what they are by a version of their own, beside that of the Redis that they stand in for.
var products = []string{"valkey", "memurai", "dragonfly", "kvrocks", "garnet"}

// factsOf reads what INFO and CONFIG GET told. Nothing told makes everything unknown.
func factsOf(info, config map[string]string) facts {
	f := facts{restartSeen: -1, redisVersion: info["redis_version"], edition: info["memurai_edition"]}
	f.cluster = info["cluster_enabled"] == "1" || info["redis_mode"] == "cluster"
	f.product, f.Version = versionOf(info)
	f.RunID = cmp.Or(info["run_id"], unknown)
	f.Role = cmp.Or(info["role"], unknown)
	f.Uptime = seconds(info["uptime_in_seconds"])
	f.RoundTrip, f.ClockError = -1, -1
	f.Persistence = persistence(info["aof_enabled"], config["appendonly"], config["appendfsync"])
	f.Eviction = cmp.Or(info["maxmemory_policy"], config["maxmemory-policy"], unknown)
	f.MaxMemory = number(cmp.Or(info["maxmemory"], config["maxmemory"]))
	f.Connections = count(info["connected_clients"])
	f.MaxConnections = count(cmp.Or(info["maxclients"], config["maxclients"]))
	f.Replicas = count(info["connected_slaves"])
	return f
}

func versionOf(info map[string]string) (product, text string) {
	for _, product := range products {
		version := info[product+"_version"]
		if version == "" {
			continue
		}
		text := product + " " + version
		if product == "memurai" {
			if redis := info["redis_version"]; redis != "" {
				text += " (redis " + redis + ")"
			}
			if edition := strings.TrimPrefix(info["memurai_edition"], "Memurai "); edition != "" {
				text += ", " + edition
			}
		}
		return product, text
	}
	if version := info["redis_version"]; version != "" {
		return "redis", "redis " + version
	}
	return "", unknown
}

func persistence(enabled, appendOnly, fsync string) string {
	switch {
	case enabled == "0" || appendOnly == "no":
		return "no append-only file"
	case (enabled == "1" || appendOnly == "yes") && fsync != "":
		return "appendfsync " + fsync
	}
	return unknown
}

// parseInfo reads the reply to INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = clean(value)
		}
	}
	return info
}

// readConfig adds the reply to CONFIG GET, a list of names and values or a map, to a map.
func readConfig(config map[string]string, reply any) {
	add := func(name, value any) {
		n, isName := name.(string)
		v, isValue := value.(string)
		if isName && isValue {
			config[n] = clean(v)
		}
	}
	switch reply := reply.(type) {
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			add(reply[i], reply[i+1])
		}
	case map[any]any:
		for name, value := range reply {
			add(name, value)
		}
	}
}

// clean makes what a node told fit for a line of text.
func clean(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text))
}

// number returns -1 for what is none, or negative.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

func count(text string) int {
	return int(min(number(text), math.MaxInt32))
}

func seconds(text string) time.Duration {
	n := number(text)
	if n < 0 {
		return -1
	}
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}

// readTime reads the reply to TIME, as the time since 1970.
func readTime(reply any) (time.Duration, bool) {
	const most = math.MaxInt64/int64(time.Second) - 1
	list, _ := reply.([]any)
	if len(list) != 2 {
		return 0, false
	}
	whole, _ := list[0].(string)
	micros, _ := list[1].(string)
	s, us := number(whole), number(micros)
	if s < 0 || s > most || us < 0 || us >= 1e6 {
		return 0, false
	}
	return time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond, true
}

// The outcomes of the probe key's steps: nil, or what is wrong with the answer.

func setOutcome(t told) error {
	if t.err != nil {
		return t.err
	}
	a, ok := acquireOp.read(t.reply, 1)
	return outcome(a, ok, acquireOp, t.reply)
}

func renewOutcome(t told) error {
	if t.err != nil {
		return t.err
	}
	a, ok := renewOp.read(t.reply, 1)
	return outcome(a, ok, renewOp, t.reply)
}

func releaseOutcome(t told) error {
	if t.err != nil {
		return t.err
	}
	results, _ := t.reply.([]any)
	if len(results) != 1 {
		return unexpected(releaseOp, t.reply).err
	}
	a, ok := releaseOp.read(results[0], 1)
	return outcome(a, ok, releaseOp, results[0])
}

func outcome(a answer, ok bool, op *operation, reply any) error {
	if !ok {
		return unexpected(op, reply).err
	}
	return a.err
}

// denial is a kind of right that a node's user lacks.
type denial uint8

const (
	allowed denial = iota
	commandDenied
	keyDenied
	channelDenied
)

// denialIn tells from an error what was denied. The texts are those of Redis 6 to 8 and Valkey, of commands
// and of commands within a script; a renamed command is as good as forbidden.
func denialIn(err error) denial {
	if err == nil {
		return allowed
	}
	text := strings.ToLower(replyText(err))
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("unknown command", "unknown redis command", "unknown subcommand"):
		return commandDenied
	case !has("noperm", "no permission", "user executing the script can't"):
		return allowed
	case has("to run the", "run this command"):
		return commandDenied
	case has("channel"):
		return channelDenied
	case has(" key"):
		return keyDenied
	}
	return commandDenied
}

// replyText is an error without our advice where it came from the node, fit for a line of text.
func replyText(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return clean(reply.Error())
	}
	return clean(err.Error())
}
