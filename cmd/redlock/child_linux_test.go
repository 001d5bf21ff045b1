package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func waitUntilStopped(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, patience, time.Millisecond)
}

func TestACommandStoppedByOthersMayGoOnLater(t *testing.T) {
	c, output := start(t, childConfig{
		argv:    []string{"/bin/sh", "-c", "kill -STOP $$; echo on"},
		mayGoOn: func() bool { panic("we were not stopped") },
	})
	waitUntilStopped(t, c.pgid)
	require.NoError(t, syscall.Kill(c.pgid, syscall.SIGCONT))
	assert.Equal(t, "on\n", readLine(t, output))
	waitFor(t, c)
	assert.Zero(t, c.status())
}

func TestTerminateReachesACommandThatIsStopped(t *testing.T) {
	c, _ := startScript(t, "kill -STOP $$")
	waitUntilStopped(t, c.pgid)
	require.NoError(t, c.terminate())
	waitFor(t, c)
	assert.Equal(t, 128+int(syscall.SIGTERM), c.status())
}

func TestACommandIsKilledWithUs(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, r.SetReadDeadline(time.Now().Add(patience)))
	run := exec.Command(testProgram())
	run.Args = append(run.Args, testProgram())
	run.Env = append(playing("run"), "ROLE_OF_COMMAND=hang")
	run.Stdout = w
	require.NoError(t, run.Start())
	require.NoError(t, w.Close())
	defer func() { _ = run.Wait() }()
	ready := make([]byte, len("ready\n"))
	_, err = r.Read(ready)
	require.NoError(t, err)
	require.NoError(t, run.Process.Kill())
	assert.Empty(t, readAll(t, r), "and the command has let go of the output")
}
