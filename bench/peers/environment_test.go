package main

import (
	"strings"
	"testing"
	"time"
)

var someEnvironment = environment{
	args: []string{"-markdown", "-rounds", "3"}, when: time.Date(2026, 11, 29, 23, 45, 0, 0, time.FixedZone("", -3600)),
	platform: "linux/amd64", cpus: 2, procs: 2, load: "1.05 1.00 0.90",
	versions: []string{"go1.26.8", "example.com/lock v1.2.3"}, server: "7.0.15", nodes: 5,
}

func TestParagraphSaysHowToRepeatTheRun(t *testing.T) {
	want := "Command `cd bench/peers && go run . -markdown -rounds 3`, 2026-11-30, 00:45 UTC; " +
		"linux/amd64, 2 CPUs (GOMAXPROCS 2) shared by the callers and the servers, load average 1.05 1.00 0.90 before the run; " +
		"go1.26.8, example.com/lock v1.2.3, redis-server 7.0.15; 5 nodes on loopback without persistence; " +
		"medians of 3 rounds (lowest–highest), the libraries taking turns within each round."
	if got := someEnvironment.paragraph(3); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTerminalHasALineForEach(t *testing.T) {
	want := `command: peers -markdown -rounds 3
date: 2026-11-29T23:45:00-01:00
machine: linux/amd64, 2 CPUs (GOMAXPROCS 2), shared by the callers and the servers
load average before the first measurement: 1.05 1.00 0.90
versions: go1.26.8, example.com/lock v1.2.3; redis-server 7.0.15, 5 of them on loopback, no persistence`
	if got := strings.Join(someEnvironment.lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLinesBecomeSentences(t *testing.T) {
	if got := sentences([]string{"failed: calls; stuck: callers", "a library is opened"}); got != "Failed: calls; stuck: callers. A library is opened." {
		t.Errorf("got %q", got)
	}
}
