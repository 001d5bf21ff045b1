package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestOutageShowsAllConditionsInOneTable(t *testing.T) {
	measured := &series{rate: []float64{100}}
	all := results{
		{nameRedlock, 64, 0}: measured, {nameRedlock, 64, 1}: measured, {nameRedlock, 64, 2}: measured,
		{nameRedsync, 64, 1}: measured, {nameRedsync, 1, 1}: measured,
	}
	var out strings.Builder
	b := &bench{cfg: config{rounds: 3, nodes: 5, each: time.Second}, out: output{Writer: &out}}
	b.printOutage(all, 64)
	var rows []string
	for line := range strings.Lines(out.String()) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			rows = append(rows, strings.TrimSpace(strings.Split(name, " |")[0]))
		}
	}
	got := strings.Join(rows[min(2, len(rows)):], "; ")
	want := "redlock, healthy just before; redlock, 1 of 5 stopped; redlock, 2 of 5 stopped; redsync, 1 of 5 stopped"
	if got != want {
		t.Errorf("got  %s\nwant %s\nin\n%s", got, want, out.String())
	}
}

func TestEveryLibraryRunsItsCyclesOnRealServers(t *testing.T) {
	for _, markdown := range []bool{false, true} {
		out := smallRun(t, markdown)
		for _, want := range []string{
			"| rueidislock ", "| redlock, healthy just before ", "| redlock, 1 of 3 stopped ", "| redsync, 1 of 3 stopped ",
			"rueidislock on ONE node", "rueidislock: rueidis/rueidislock, TryWithContext", "GOMAXPROCS", "redis-server",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("markdown %v: missing %q in\n%s", markdown, want, out)
			}
		}
		if markdown {
			mustStandApart(t, out)
		}
	}
}

func smallRun(t *testing.T, markdown bool) string {
	t.Helper()
	servers := redistest.ForTest(t, 3)
	var out strings.Builder
	b := &bench{
		cfg:     config{each: 50 * time.Millisecond, rounds: 1, nodes: 3, callers: []int{2}, pool: poolDefault, markdown: markdown},
		servers: servers, urls: redistest.URLs(servers), out: output{&out, markdown},
	}
	if err := b.printEnvironment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.runWorkload(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// mustStandApart checks that each table has an empty line before and after it, without which GitHub shows none, or
// takes what follows for a row.
func mustStandApart(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := 1; i < len(lines); i++ {
		before, now := strings.HasPrefix(lines[i-1], "|"), strings.HasPrefix(lines[i], "|")
		if before != now && lines[i-1] != "" && lines[i] != "" {
			t.Errorf("no empty line between\n%s\n%s", lines[i-1], lines[i])
		}
	}
}
