package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestNumberInInfoIsFoundByItsWholeName(t *testing.T) {
	const info = "# CPU\r\nused_cpu_sys_children:9\r\nused_cpu_sys:1.25\r\nused_cpu_user:x\r\n"
	if n, err := numberIn(info, "used_cpu_sys"); n != 1.25 || err != nil {
		t.Errorf("got %v, %v", n, err)
	}
	if _, err := numberIn(info, "used_cpu"); err == nil || !strings.Contains(err.Error(), "no used_cpu in") {
		t.Errorf("a field that is not there: %v", err)
	}
	if _, err := numberIn(info, "used_cpu_user"); err == nil {
		t.Error("a field that is no number: no error")
	}
}

func TestProbesCountTheCommandsOfOthersAlone(t *testing.T) {
	p := realProbes(t, 2)
	meter, err := p.startCommands(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := meter.executed(t.Context()); n != 0 || err != nil {
		t.Errorf("%d commands, %v, where there were none", n, err)
	}
	if meter, err = p.startCommands(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := p[0].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := meter.executed(t.Context()); n != 5 || err != nil {
		t.Errorf("%d commands, %v, want 5", n, err)
	}
}

func TestProbesHoldAKeyThatIsFree(t *testing.T) {
	p := realProbes(t, 2)
	if err := p.hold(t.Context(), "key", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.hold(t.Context(), "key", time.Minute); err == nil {
		t.Error("held twice")
	}
	if err := p.drop(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	if err := p.hold(t.Context(), "key", time.Minute); err != nil {
		t.Error(err)
	}
}

func TestCPUTimeOfThisProcessGrowsWithItsWork(t *testing.T) {
	before, err := processCPU()
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
	}
	after, err := processCPU()
	if err != nil || after <= before || after-before > 10*time.Second {
		t.Errorf("from %v to %v, %v", before, after, err)
	}
}

func realProbes(t *testing.T, nodes int) probes {
	t.Helper()
	p, err := openProbes(t.Context(), redistest.URLs(redistest.ForTest(t, nodes)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
