package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// environment is where the numbers come from.
type environment struct {
	args     []string // of the command
	when     time.Time
	platform string
	cpus     int
	procs    int // GOMAXPROCS
	load     string
	versions []string // of Go and of the modules
	server   string   // version
	nodes    int
}

func (b *bench) environment(ctx context.Context) (environment, error) {
	version, err := serverVersion(ctx, b.urls[0])
	if err != nil {
		return environment{}, err
	}
	return environment{
		args: os.Args[1:], when: time.Now(),
		platform: runtime.GOOS + "/" + runtime.GOARCH, cpus: runtime.NumCPU(), procs: runtime.GOMAXPROCS(0), load: loadAverage(),
		versions: append([]string{runtime.Version()}, moduleVersions()...), server: version, nodes: b.cfg.nodes,
	}, nil
}

// lines are for a terminal.
func (e environment) lines() []string {
	return []string{
		"command: " + strings.Join(append([]string{"peers"}, e.args...), " "),
		"date: " + e.when.Format(time.RFC3339),
		fmt.Sprintf("machine: %s, %d CPUs (GOMAXPROCS %d), shared by the callers and the servers", e.platform, e.cpus, e.procs),
		"load average before the first measurement: " + e.load,
		fmt.Sprintf("versions: %s; redis-server %s, %d of them on loopback, no persistence", strings.Join(e.versions, ", "), e.server, e.nodes),
	}
}

// paragraph is for a document: a reader repeats the run by it.
func (e environment) paragraph(rounds int) string {
	command := strings.Join(append([]string{"cd bench/peers && go run ."}, e.args...), " ")
	return fmt.Sprintf("Command %s, %s UTC; %s, %s (GOMAXPROCS %d) shared by the callers and the servers, load average %s before the run; "+
		"%s, redis-server %s; %s on loopback without persistence; medians of %s (lowest–highest), the libraries taking turns within each round.",
		codeSpan(command), e.when.UTC().Format("2006-01-02, 15:04"), e.platform, count(e.cpus, "CPU"), e.procs, e.load,
		strings.Join(e.versions, ", "), e.server, count(e.nodes, "node"), count(rounds, "round"))
}

// printEnvironment says where the numbers come from and what every library was given.
func (b *bench) printEnvironment(ctx context.Context) error {
	e, err := b.environment(ctx)
	if err != nil {
		return err
	}
	explained := append(b.explain(), "PoolSize of the go-redis clients: "+b.cfg.poolGiven())
	if b.out.markdown {
		fmt.Fprintln(b.out, e.paragraph(b.cfg.rounds)+" "+sentences(explained))
		fmt.Fprint(b.out, "\nWhat each was given:\n\n")
		b.printGiven("- ")
		return nil
	}
	for _, line := range append(e.lines(), explained...) {
		fmt.Fprintln(b.out, line)
	}
	fmt.Fprintln(b.out, "what each was given:")
	b.printGiven("  ")
	return nil
}

// sentences makes a part of a paragraph of lines.
func sentences(lines []string) string {
	var text strings.Builder
	for i, line := range lines {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(strings.ToUpper(line[:1]) + line[1:] + ".")
	}
	return text.String()
}

func (b *bench) printGiven(mark string) {
	for _, lib := range b.libraries() {
		given := lib.given
		if b.cfg.waiting {
			given = lib.waits
		}
		fmt.Fprintf(b.out, "%s%s: %s\n", mark, lib.name, given)
	}
}

// explain tells what was measured, and what the words of the tables mean.
func (b *bench) explain() []string {
	if b.cfg.waiting {
		return []string{
			fmt.Sprintf("workload: lockers that want one key and wait for it, ttl %v; a locker shares no connection with another", ttl),
			"failed: calls that returned an error before the end; violations: two holders at once",
			"a library is opened for its turn and closed after it, GOGC is " + gogc(),
		}
	}
	return []string{
		fmt.Sprintf("workload: every caller acquires and releases a new key per cycle, ttl %v, one after the other", ttl),
		fmt.Sprintf("failed: calls that returned an error; stuck: callers still in a call %v after the end", grace),
		"heap/cycle: bytes allocated per cycle; a library is opened for its turn and closed after it, GOGC is " + gogc(),
	}
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
