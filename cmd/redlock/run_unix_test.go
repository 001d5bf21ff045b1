//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redistest"
)

func TestRunOfAFileThatCannotBeExecutedSaysSo(t *testing.T) {
	_, i := embedded(t, 3)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600))
	got := runRedlock(t, i.env["REDLOCK_NODES"], "", "run", "job", "--", file)
	assert.Equal(t, exitCannotExecute, got.status)
	assert.Contains(t, got.err, "permission denied")
}

func TestRunForwardsSignalsAndTellsWhichEndedTheCommand(t *testing.T) {
	servers, i := embedded(t, 3)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		c := redlockCommand(i.env["REDLOCK_NODES"], "hang", "run", "job", "--", testProgram())
		output := startWithOutput(t, c)
		assert.Equal(t, "ready\n", readLine(t, output))
		require.NoError(t, c.Process.Signal(s))
		_ = c.Wait()
		assert.Equal(t, 128+int(s), c.ProcessState.ExitCode())
		assert.Zero(t, holders("job", servers))
	}
}

func TestASignalEndsTheWaitingForTheLock(t *testing.T) {
	servers, i := embedded(t, 3)
	put(t, "job", token, time.Minute, servers...)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		var errText bytes.Buffer
		before := servers[0].CommandCount()
		c := redlockCommand(i.env["REDLOCK_NODES"], "exit", "run", "--wait", "forever", "job", "--", testProgram(), "0")
		c.Stderr = &errText
		require.NoError(t, c.Start())
		require.Eventually(t, func() bool { return servers[0].CommandCount() > before+2 }, patience, time.Millisecond) // it asks for the lock
		require.NoError(t, c.Process.Signal(s))
		_ = c.Wait()
		assert.Equal(t, 128+int(s), c.ProcessState.ExitCode())
		assert.Empty(t, errText.String())
	}
}

func TestACommandThatWasStoppedUntilItsLockRanOutNeverGoesOn(t *testing.T) {
	_, i := embedded(t, 3)
	c := redlockCommand(i.env["REDLOCK_NODES"], "", "run", "--ttl", "1s", "job", "--", "/bin/sh", "-c", "echo here; kill -TSTP $$; echo went on")
	var errText bytes.Buffer
	c.Stderr = &errText
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a job of this test's, as of a shell's
	output := startWithOutput(t, c)
	assert.Equal(t, "here\n", readLine(t, output))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
	time.Sleep(time.Second) // the ttl
	require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	rest, err := io.ReadAll(output)
	require.NoError(t, err)
	assert.Empty(t, string(rest))
	_ = c.Wait()
	assert.Equal(t, exitLost, c.ProcessState.ExitCode())
	assert.Equal(t, 1, strings.Count(errText.String(), "\n"), errText.String())
}

func TestAnInterruptDoesNotWaitForNodesThatHang(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hung.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for command, status := range map[string]int{"ttl": exitInterrupted, "status": exitInterrupted, "status --watch": 0} {
			c := redlockCommand(hung.Addr().String(), "", append(strings.Fields(command), "--node-timeout", "1h", "job")...)
			require.NoError(t, c.Start())
			conn, err := hung.Accept() // so it listens to signals, or is about to
			require.NoError(t, err)
			greeting := make([]byte, 1)
			_, err = conn.Read(greeting)
			require.NoError(t, err)
			require.NoError(t, c.Process.Signal(s))
			_ = c.Wait()
			assert.Equal(t, status, c.ProcessState.ExitCode(), command)
			_ = conn.Close()
		}
	}
}

func TestAMessageThatNobodyCanReadAnyMoreDoesNotEndRedlock(t *testing.T) {
	servers, i := embedded(t, 3)
	c := redlockCommand(i.env["REDLOCK_NODES"], "stubborn", "run", "--ttl", "1s", "job", "--", testProgram())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	c.Stderr = w
	pid := readPID(t, startWithOutput(t, c))
	require.NoError(t, w.Close())
	require.NoError(t, r.Close())
	for _, s := range servers {
		s.FlushAll()
	}
	_ = c.Wait()
	assert.Equal(t, exitLost, c.ProcessState.ExitCode(), c.ProcessState)
	awaitEnd(t, pid)
}

// The bound is the life that the nodes give the key: the validity ends before it.
func TestRealServersWithoutAQuorumTheCommandIsGoneBeforeTheKey(t *testing.T) {
	servers := redistest.ForTest(t, 5)
	var errText bytes.Buffer
	c := redlockCommand(nodeList(servers), "stubborn", "run", "--ttl", "3s", "job", "--", testProgram())
	c.Stderr = &errText
	output := startWithOutput(t, c)
	pid := readPID(t, output)
	for _, s := range servers[:3] {
		require.NoError(t, s.Pause())
	}
	paused := time.Now()
	left, err := client(t, servers[4].Addr()).PTTL(context.Background(), "job").Result()
	require.NoError(t, err)
	require.Positive(t, left)
	awaitEnd(t, pid)
	gone := time.Since(paused)
	assert.Less(t, gone, left)
	_ = c.Wait()
	assert.Equal(t, exitLost, c.ProcessState.ExitCode())
	assert.Contains(t, errText.String(), "the nodes have not renewed it")
	t.Logf("gone %v after the nodes were stopped, %v before the key", gone.Round(time.Millisecond), (left - gone).Round(time.Millisecond))
}

func TestRealServersAfterAKillOfRedlockTheKeyIsFreeAfterTheTTL(t *testing.T) {
	servers := redistest.ForTest(t, 5)
	c := redlockCommand(nodeList(servers), "stubborn", "run", "--ttl", "3s", "job", "--", testProgram())
	pid := readPID(t, startWithOutput(t, c))
	require.NoError(t, c.Process.Kill())
	killed := time.Now()
	_ = c.Wait()
	if runtime.GOOS == "linux" {
		awaitEnd(t, pid)
		t.Logf("the command was gone %v after redlock", time.Since(killed).Round(time.Millisecond))
	}
	got := runRedlock(t, nodeList(servers), "exit", "run", "job", "--", testProgram(), "0")
	assert.Equal(t, exitHeld, got.status, "the key lives on for its ttl")
	got = runRedlock(t, nodeList(servers), "exit", "run", "--wait", "10s", "job", "--", testProgram(), "0")
	assert.Zero(t, got.status, got.err)
	assert.Less(t, time.Since(killed), 5*time.Second)
	t.Logf("the lock was free %v after the kill", time.Since(killed).Round(time.Millisecond))
}

func readPID(t *testing.T, output *bufio.Reader) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(readLine(t, output)))
	require.NoError(t, err)
	return pid
}

// awaitEnd waits until a process has ended, whether or not anybody has waited for it since.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux alone
		return syscall.Kill(pid, 0) == syscall.ESRCH || bytes.Contains(stat, []byte(") Z "))
	}, patience, time.Millisecond)
}

func TestRunEndsThoughNobodyReadsItsMessages(t *testing.T) {
	servers, i := embedded(t, 3)
	c := redlockCommand(i.env["REDLOCK_NODES"], "stubborn", "run", "--ttl", "1s", "--grace", "0s", "job", "--", testProgram())
	c.Stderr = fullPipe(t)
	readLine(t, startWithOutput(t, c))
	for _, s := range servers {
		s.FlushAll()
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		require.FailNow(t, "it waits for a reader")
	}
	assert.Equal(t, exitLost, c.ProcessState.ExitCode())
}

// fullPipe returns the end to write to of a pipe that takes no more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	require.NoError(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil {
		_, err = w.Write(make([]byte, 1<<16))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	return w
}
