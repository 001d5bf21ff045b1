package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFlagsHaveDefaults(t *testing.T) {
	c, err := parseFlags(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.each != time.Second || c.rounds != 3 || c.nodes != 5 || !slices.Equal(c.callers, []int{1, 64, 256}) {
		t.Errorf("defaults are %+v", c)
	}
	if !slices.Equal(c.outageCallers(), []int{1, 64}) || c.minority() != 2 || c.limit() != 3*time.Second {
		t.Errorf("outage at %v callers, %d nodes, %v", c.outageCallers(), c.minority(), c.limit())
	}
	for _, name := range libraryNames() {
		if !c.wants(name) {
			t.Errorf("%s is left out by default", name)
		}
	}
}

func TestWaitingHasDefaultsOfItsOwn(t *testing.T) {
	for args, want := range map[string]time.Duration{"-waiting": waitingEach, "-waiting -d 1s": time.Second} {
		c, err := parseFlags(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if !c.waiting || c.each != want || c.lockers != 16 || len(c.sections) != 0 {
			t.Errorf("%s gives %+v", args, c)
		}
		if p := planOf(c); p.contest != want || p.lockers != 16 {
			t.Errorf("%s plans %+v", args, p)
		}
	}
}

func TestWaitingRunsTheLibrariesThatCanWait(t *testing.T) {
	b := bench{cfg: config{waiting: true}}
	var got []string
	for _, lib := range b.libraries() {
		got = append(got, lib.name)
	}
	if !slices.Equal(got, []string{nameRedlock, nameRedsync, nameRedsyncFailFast, nameRueidislock}) {
		t.Errorf("waiting: %v", got)
	}
}

func TestSectionsAreRunByWhoTakesPart(t *testing.T) {
	b := bench{cfg: config{waiting: true, only: []string{nameRedsync, nameRueidislock}}}
	for section, want := range map[string][]string{
		sectionHandOver: {nameRedsync, nameRueidislock}, sectionContention: {nameRedsync, nameRueidislock},
		sectionCrowd: {nameRedsync, nameRueidislock}, sectionGreedy: {nameRedsync}, sectionParked: {nameRedsync},
	} {
		var got []string
		for _, lib := range b.in(section) {
			got = append(got, lib.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", section, got, want)
		}
	}
}

func TestOnlyPicksLibraries(t *testing.T) {
	c, err := parseFlags([]string{"-only", "redlock, redislock"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !c.wants(nameRedlock) || !c.wants(nameRedislock) || c.wants(nameRedsync) {
		t.Errorf("wants %v", c.only)
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	for args, name := range map[string]string{
		"-callers 1,x":      "-callers",
		"-callers 0":        "-callers",
		"-callers 4,4":      "-callers",
		"-only redlock,foo": "-only",
		"-d 1ms":            "-d",
		"-pool 7":           "-pool",
		"-rounds 0":         "-rounds",
		"-nodes 0":          "-nodes",
		"-d 1s stray":       "stray",
		"-lockers 8":        "only with -waiting",
		"-sections parked":  "only with -waiting",

		"-waiting -callers 1":      "-callers",
		"-waiting -cpuprofile x":   "-cpuprofile",
		"-waiting -lockers 1":      "-lockers",
		"-waiting -sections queue": "-sections",
		"-waiting -only redislock": "-only",

		"-waiting -only redlock,rueidislock -sections parked,greedy": "rueidislock takes no part",
	} {
		_, err := parseFlags(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names %s", args, err, name)
		}
	}
}

func TestVersionOfTheServerIsFound(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n":                      "7.0.15",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": "valkey 8.0.1",
		"": "(unknown version)",
	} {
		if got := versionIn(info); got != want {
			t.Errorf("versionIn(%q) = %q, want %q", info, got, want)
		}
	}
}

func TestPoolIsRaisedToTheCallersAndNeverBelowTheDefault(t *testing.T) {
	raised, byDefault := config{pool: poolRaised}, config{pool: poolDefault}
	if got := raised.poolSize(100_000); got != 100_000 {
		t.Errorf("raised for 100000 callers: %d", got)
	}
	if raised.poolSize(1) != byDefault.poolSize(1) || byDefault.poolSize(1) != byDefault.poolSize(100_000) {
		t.Errorf("one caller: raised %d, default %d", raised.poolSize(1), byDefault.poolSize(1))
	}
}
