package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// innerRoleVariable names the role of the command that `redlock run` runs.
const innerRoleVariable = "REDLOCK_TEST_INNER_ROLE"

func init() {
	roles["redlock"] = func([]string) {
		_ = os.Setenv(roleVariable, os.Getenv(innerRoleVariable))
		main()
	}
	roles["lockenv"] = func([]string) {
		for _, name := range []string{"REDLOCK_KEY", "REDLOCK_TOKEN", "REDLOCK_FENCE"} {
			value, set := os.LookupEnv(name)
			fmt.Println(name, set, value)
		}
	}
	roles["critical"] = func(args []string) { // tells when it is at work
		note := func(what string) {
			log, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				os.Exit(99)
			}
			_, _ = log.WriteString(what + "\n")
			_ = log.Close()
		}
		note("begin")
		time.Sleep(100 * time.Millisecond) // the work
		note("end")
	}
	roles["stubborn"] = func([]string) {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	}
}

// redlockCommand is the program under test, as a process of its own.
func redlockCommand(nodes, innerRole string, args ...string) *exec.Cmd {
	c := exec.Command(testProgram(), args...)
	c.Env = append(playing("redlock"), innerRoleVariable+"="+innerRole, "REDLOCK_NODES="+nodes, "REDLOCK_CONFIG="+os.DevNull,
		"REDLOCK_PASSWORD=", "REDLOCK_FENCE=of an outer lock")
	return c
}

// runRedlock runs it to its end.
func runRedlock(t *testing.T, nodes, innerRole string, args ...string) outcome {
	t.Helper()
	var out, err bytes.Buffer
	c := redlockCommand(nodes, innerRole, args...)
	c.Stdout, c.Stderr = &out, &err
	_ = c.Run() // the status tells
	require.NotNil(t, c.ProcessState, "not started")
	return outcome{c.ProcessState.ExitCode(), out.String(), err.String()}
}

// startWithOutput starts it, and returns what it and its command print. Reading ends when both have ended.
func startWithOutput(t *testing.T, c *exec.Cmd) *bufio.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	_ = r.SetReadDeadline(time.Now().Add(patience)) // where pipes cannot have one, the test's own limit is left
	c.Stdout = w
	err = c.Start()
	require.NoError(t, w.Close())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Process.Kill() })
	return bufio.NewReader(r)
}

func nodeList(servers []*redistest.Server) string {
	return strings.Join(redistest.URLs(servers), ",")
}

// client speaks to a node beside everything that is tested.
func client(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRunPassesTheStatusOfTheCommandOn(t *testing.T) {
	_, i := embedded(t, 3)
	nodes := i.env["REDLOCK_NODES"]
	for _, want := range []int{0, 1, 3, 255} {
		assert.Equal(t, outcome{want, "", ""}, runRedlock(t, nodes, "exit", "run", "job", "--", testProgram(), strconv.Itoa(want)))
	}
	got := runRedlock(t, nodes, "", "run", "job", "--", filepath.Join(t.TempDir(), "missing"))
	assert.Equal(t, exitNotFound, got.status)
	assert.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
	got = runRedlock(t, nodes, "", "run", "job", "--", "no-such-command-anywhere")
	assert.Equal(t, exitNotFound, got.status)
	assert.Contains(t, got.err, "no-such-command-anywhere")
}

func TestRunRefusesATTLAboveTheLongest(t *testing.T) {
	_, i := embedded(t, 3)
	got := runRedlock(t, i.env["REDLOCK_NODES"], "exit", "run", "--max-ttl", "10s", "job", "--", testProgram(), "0")
	assert.Equal(t, exitUsage, got.status)
	assert.Contains(t, got.err, "ttl 20s is above the 10s of WithMaxTTL")
}

func TestRunReleasesTheLockInEveryCase(t *testing.T) {
	servers, i := embedded(t, 3)
	for _, args := range [][]string{
		{"run", "job", "--", testProgram(), "0"},
		{"run", "job", "--", testProgram(), "3"},
		{"run", "job", "--", "no-such-command-anywhere"},
	} {
		runRedlock(t, i.env["REDLOCK_NODES"], "exit", args...)
		assert.Zero(t, holders("job", servers), args)
	}
}

func TestRunTellsTheCommandItsLock(t *testing.T) {
	_, i := embedded(t, 3)
	got := runRedlock(t, i.env["REDLOCK_NODES"], "lockenv", "run", "--prefix", "app:", "job", "--", testProgram())
	assert.Zero(t, got.status, got.err)
	assert.Regexp(t, `^REDLOCK_KEY true job\r?\nREDLOCK_TOKEN true \S+:\d+/[\w-]{22}\r?\nREDLOCK_FENCE false \r?\n$`, got.out)
	got = runRedlock(t, i.env["REDLOCK_NODES"], "lockenv", "run", "--fence", "job", "--", testProgram())
	assert.Regexp(t, `REDLOCK_FENCE true \d{16}\r?\n$`, got.out)
}

func TestRunSaysByItsStatusWhyTheCommandDidNotRun(t *testing.T) {
	servers, i := embedded(t, 3)
	nodes := i.env["REDLOCK_NODES"]
	put(t, "job", token, time.Minute, servers...)
	got := runRedlock(t, nodes, "exit", "run", "job", "--", testProgram(), "0")
	assert.Equal(t, exitHeld, got.status)
	assert.Regexp(t, `^redlock: acquire "job": the key is held.*\(redlock status tells who holds it; --wait waits\)\n$`, got.err)
	got = runRedlock(t, nodes, "exit", "run", "--wait", "50ms", "--exit-held", "0", "job", "--", testProgram(), "3")
	assert.Equal(t, outcome{}, got, "no failure, no message")

	got = runRedlock(t, nodes, "exit", "run", "--wait", "0s", "job", "--", testProgram(), "0")
	assert.Equal(t, exitHeld, got.status, "0s is not for ever")

	servers[0].Close()
	servers[2].Close()
	got = runRedlock(t, nodes, "exit", "run", "free", "--", testProgram(), "0")
	assert.Equal(t, exitNoQuorum, got.status)
	assert.Regexp(t, `^redlock: acquire "free": no quorum.*\(redlock check tells what is wrong with the nodes\)\n$`, got.err)
	got = runRedlock(t, nodes, "exit", "run", "--exit-no-quorum", "7", "free", "--", testProgram(), "0")
	assert.Equal(t, 7, got.status)
}

func TestForeverIsLongerThanAnyLimit(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, 1500*time.Millisecond, servers...) // of a holder that has crashed; the library's own limit is 750 ms
	got := runRedlock(t, i.env["REDLOCK_NODES"], "exit", "run", "--wait", "forever", "job", "--", testProgram(), "3")
	assert.Equal(t, outcome{3, "", ""}, got)
}

func TestASignalAtTheMomentOfTheGrantLeavesNoLockBehind(t *testing.T) {
	servers, i := embedded(t, 1)
	l, err := redlock.Open([]string{"redis://" + i.env["REDLOCK_NODES"]})
	require.NoError(t, err)
	defer l.Close()
	for range 200 {
		r := run{key: "job", ttl: time.Minute, wait: "0"}
		signals := make(chan os.Signal, 1)
		time.AfterFunc(rand.N(400*time.Microsecond), func() { signals <- syscall.SIGTERM })
		lock, err := r.acquire(l, signals)
		if err == nil {
			require.NoError(t, lock.Release(t.Context()))
			continue
		}
		require.Equal(t, 128+int(syscall.SIGTERM), statusOf(err))
		require.Eventually(t, func() bool { return holders("job", servers) == 0 }, patience, 100*time.Microsecond)
	}
}

func TestRunEndsTheCommandWhenItsLockIsTakenAway(t *testing.T) {
	servers, i := embedded(t, 3)
	nodes := i.env["REDLOCK_NODES"]
	for _, test := range []struct {
		flags  []string
		status int
	}{
		{nil, exitLost},
		{[]string{"--exit-lost", "9"}, 9},
	} {
		var errText bytes.Buffer
		args := append([]string{"run", "--ttl", "1s", "--grace", "0s"}, test.flags...)
		c := redlockCommand(nodes, "stubborn", append(args, "job", "--", testProgram())...)
		c.Stderr = &errText
		output := startWithOutput(t, c)
		readLine(t, output)
		for _, s := range servers {
			s.FlushAll()
		}
		_ = c.Wait()
		assert.Equal(t, test.status, c.ProcessState.ExitCode())
		assert.Regexp(t, `^redlock: renew "job": lock lost: .*; the command is asked to stop, and killed in 0s\n$`, errText.String())
	}
}

func TestRunTellsALossThatTheReleaseFinds(t *testing.T) {
	servers, i := embedded(t, 3)
	var errText bytes.Buffer
	c := redlockCommand(i.env["REDLOCK_NODES"], "copy", "run", "--exit-lost", "9", "job", "--", testProgram())
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	c.Stderr = &errText
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { return holders("job", servers) == 3 }, patience, time.Millisecond)
	for _, s := range servers {
		s.FlushAll()
	}
	require.NoError(t, stdin.Close()) // the command ends, with status 0
	_ = c.Wait()
	assert.Equal(t, 9, c.ProcessState.ExitCode())
	assert.Contains(t, errText.String(), "the lock was lost while the command ran")
	assert.Equal(t, 1, strings.Count(errText.String(), "\n"))
}

func TestRunTellsAReleaseThatTooFewNodesConfirmed(t *testing.T) {
	servers, i := embedded(t, 3)
	var errText bytes.Buffer
	c := redlockCommand(i.env["REDLOCK_NODES"], "copy", "run", "job", "--", testProgram())
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	c.Stderr = &errText
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { return holders("job", servers) == 3 }, patience, time.Millisecond)
	servers[0].Close()
	servers[1].Close()
	require.NoError(t, stdin.Close())
	assert.NoError(t, c.Wait(), "the command had ended before")
	assert.Regexp(t, `^redlock: release "job": no quorum: .*\(redlock check tells what is wrong with the nodes\)\n$`, errText.String())
}

func TestRunEndsTheCommandWhenMaxHoldIsOver(t *testing.T) {
	servers, i := embedded(t, 3)
	got := runRedlock(t, i.env["REDLOCK_NODES"], "stubborn", "run", "--ttl", "1s", "--max-hold", "1200ms", "job", "--", testProgram())
	assert.Equal(t, exitLost, got.status)
	assert.Contains(t, got.err, "--max-hold of 1.2s is over")
	assert.Zero(t, holders("job", servers))
}

func TestRealServersRunOneCommandAtATime(t *testing.T) {
	servers := redistest.ForTest(t, 5)
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	var all []*exec.Cmd
	for range 4 {
		c := redlockCommand(nodeList(servers), "critical", "run", "--wait", "forever", "job", "--", testProgram(), log)
		c.Stderr = os.Stderr
		require.NoError(t, c.Start())
		all = append(all, c)
	}
	for _, c := range all {
		assert.NoError(t, c.Wait())
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("begin\nend\n", 4), string(text))
}

func TestRealServersOfTwoRunsThatDoNotWaitOneIsRefused(t *testing.T) {
	servers := redistest.ForTest(t, 5)
	first := redlockCommand(nodeList(servers), "copy", "run", "job", "--", testProgram())
	stdin, err := first.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	node := client(t, servers[0].Addr())
	require.Eventually(t, func() bool { return node.Exists(context.Background(), "job").Val() == 1 }, patience, time.Millisecond)
	got := runRedlock(t, nodeList(servers), "exit", "run", "job", "--", testProgram(), "0")
	assert.Equal(t, exitHeld, got.status)
	require.NoError(t, stdin.Close())
	assert.NoError(t, first.Wait())
	got = runRedlock(t, nodeList(servers), "exit", "run", "job", "--", testProgram(), "0")
	assert.Zero(t, got.status, got.err)
}
