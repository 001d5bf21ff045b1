package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var shownModules = []string{
	"github.com/redlock-go/redlock",
	"github.com/go-redsync/redsync/v4",
	"github.com/bsm/redislock",
	"github.com/redis/go-redis/v9",
}

// printEnvironment says where the numbers come from and what every library was given.
func (b *bench) printEnvironment(ctx context.Context) error {
	version, err := serverVersion(ctx, b.urls[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "command: %s\n", strings.Join(append([]string{"peers"}, os.Args[1:]...), " "))
	fmt.Fprintf(b.out, "date: %s\n", time.Now().Format(time.RFC3339))
	fmt.Fprintf(b.out, "machine: %s/%s, %d CPUs (GOMAXPROCS %d), shared by the callers and the servers\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0))
	fmt.Fprintf(b.out, "load average before the first measurement: %s\n", loadAverage())
	fmt.Fprintf(b.out, "versions: %s; redis-server %s, %d of them on loopback, no persistence\n",
		strings.Join(append([]string{runtime.Version()}, moduleVersions()...), ", "), version, b.cfg.nodes)
	if b.cfg.waiting {
		b.explainWaiting()
	} else {
		b.explainCycles()
	}
	fmt.Fprintf(b.out, "PoolSize of the others' clients: %s\n", b.cfg.poolGiven())
	fmt.Fprintln(b.out, "what each was given:")
	for _, lib := range b.libraries() {
		given := lib.given
		if b.cfg.waiting {
			given = lib.waits
		}
		fmt.Fprintf(b.out, "  %s: %s\n", lib.name, given)
	}
	return nil
}

func (b *bench) explainCycles() {
	fmt.Fprintf(b.out, "workload: every caller acquires and releases a new key per cycle, ttl %v, one after the other\n", ttl)
	fmt.Fprintf(b.out, "failed: calls that returned an error; stuck: callers still in a call %v after the end\n", grace)
	fmt.Fprintln(b.out, "heap/cycle: bytes allocated per cycle; a library is opened for its turn and closed after it, GOGC is "+gogc())
}

func (b *bench) explainWaiting() {
	fmt.Fprintf(b.out, "workload: lockers that want one key and wait for it, ttl %v; a locker shares no connection with another\n", ttl)
	fmt.Fprintln(b.out, "failed: calls that returned an error before the end; violations: two holders at once")
	fmt.Fprintln(b.out, "a library is opened for its turn and closed after it, GOGC is "+gogc())
}

// loadAverage shows a reader who else was at work on the machine. Linux only.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// gogc is the setting of the environment; it decides how much an allocation costs.
func gogc() string {
	if set := os.Getenv("GOGC"); set != "" {
		return set
	}
	return "100"
}

func moduleVersions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var versions []string
	for _, path := range shownModules {
		for _, module := range info.Deps {
			if module.Path == path {
				versions = append(versions, path+" "+versionOf(module))
			}
		}
	}
	return versions
}

func versionOf(module *debug.Module) string {
	if module.Replace != nil {
		return "(this working tree)"
	}
	return module.Version
}

func serverVersion(ctx context.Context, url string) (string, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return "", err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	return versionIn(info), nil
}

// versionIn finds the version in an answer to INFO server. Valkey names its own beside the one of Redis it is
// compatible with.
func versionIn(info string) string {
	found := "(unknown version)"
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "valkey_version":
			return "valkey " + value
		case "redis_version":
			found = value
		}
	}
	return found
}
