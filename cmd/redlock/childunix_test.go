//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() { roles["run"] = runRole }

// runRole is `redlock run` without a lock: it runs its arguments as a command. The lock was lost if LOST says so.
func runRole(args []string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded()...)
	known := make(chan *child, 1)
	config := childConfig{
		argv: args,
		env:  append(os.Environ(), roleVariable+"="+os.Getenv("ROLE_OF_COMMAND")),
		mayGoOn: func() bool {
			if os.Getenv("LOST") == "" {
				return true
			}
			_ = (<-known).terminate()         // as a guardian would who wakes up at the same time
			time.Sleep(20 * time.Millisecond) // a chance for what must not happen
			return false
		},
	}
	var pipeline sync.WaitGroup
	if os.Getenv("IN_PIPELINE") != "" {
		r, w, _ := os.Pipe()
		config.stdout = w
		pipeline.Go(func() { _, _ = os.Stdout.ReadFrom(r) })
	}
	c, err := startChild(config)
	if err != nil {
		fmt.Println("not started:", err)
		os.Exit(notStartedStatus(err))
	}
	known <- c
	for {
		select {
		case s := <-signals:
			fmt.Println("run forwards", s)
			_ = c.forward(s)
		case <-c.done():
			_ = config.stdout.Close()
			pipeline.Wait()
			os.Exit(c.status())
		}
	}
}

func startScript(t *testing.T, script string) (*child, *bufio.Reader) {
	t.Helper()
	return start(t, childConfig{argv: []string{"/bin/sh", "-c", "exec 2>&-; " + script}}) // sh tells how its children ended
}

func TestACommandIsTheLeaderOfAProcessGroupOfItsOwn(t *testing.T) {
	c, output := play(t, "hang")
	readLine(t, output)
	pgid, err := unix.Getpgid(c.pgid)
	require.NoError(t, err)
	assert.Equal(t, c.pgid, pgid)
	assert.NotEqual(t, ourGroup(), pgid)
}

func TestTheStatusOfACommandEndedByASignalIs128AndItsNumber(t *testing.T) {
	c, _ := startScript(t, "kill -USR1 $$")
	waitFor(t, c)
	assert.Equal(t, 128+int(syscall.SIGUSR1), c.status())
}

func TestNoZombieIsLeft(t *testing.T) {
	c, _ := startScript(t, "exit 0")
	waitFor(t, c)
	_, err := syscall.Wait4(c.pgid, nil, syscall.WNOHANG, nil)
	assert.Equal(t, syscall.ECHILD, err)
}

func TestTerminateReachesTheCommandAndItsGrandchildren(t *testing.T) {
	c, output := startScript(t, `
		trap "echo command; exit 4" TERM
		(trap "echo grandchild; exit" TERM; echo ready; while :; do sleep .1; done) &
		while :; do wait; done`)
	require.Equal(t, "ready\n", readLine(t, output))
	require.NoError(t, c.terminate())
	waitFor(t, c)
	assert.Equal(t, 4, c.status())
	said := readAll(t, output)
	assert.Contains(t, said, "command")
	assert.Contains(t, said, "grandchild")
}

func TestAnyForwardedSignalReachesTheGroup(t *testing.T) {
	for _, s := range forwarded() {
		c, output := startScript(t, `for s in INT TERM HUP QUIT USR1 USR2; do trap "echo $s; exit 9" $s; done; echo ready; while :; do sleep .1; done`)
		require.Equal(t, "ready\n", readLine(t, output))
		require.NoError(t, c.forward(s))
		waitFor(t, c)
		assert.Equal(t, 9, c.status())
		name := strings.TrimSpace(readAll(t, output))
		assert.Equal(t, map[string]syscall.Signal{
			"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
			"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		}[name], s)
	}
}

const deafTree = `trap "" TERM; (echo ready; exec sleep 600) & wait`

func TestKillEndsAGroupThatIgnoresTerminate(t *testing.T) {
	c, output := startScript(t, deafTree)
	require.Equal(t, "ready\n", readLine(t, output))
	require.NoError(t, c.terminate())
	require.NoError(t, c.kill())
	waitFor(t, c)
	assert.Equal(t, 128+int(syscall.SIGKILL), c.status())
	assert.Empty(t, readAll(t, output), "and the grandchild has let go of the output")
}

func TestAfterTerminateDoneWaitsForTheWholeGroup(t *testing.T) {
	c, output := startScript(t, `(trap "" TERM; echo ready; exec sleep 600) & wait`)
	require.Equal(t, "ready\n", readLine(t, output))
	require.NoError(t, c.terminate())
	waitUntilReaped(t, c.pgid)
	select {
	case <-c.done():
		require.Fail(t, "the grandchild runs, and nobody may think otherwise")
	default:
	}
	require.NoError(t, c.kill())
	waitFor(t, c)
	assert.Equal(t, 128+int(syscall.SIGTERM), c.status())
	assert.Empty(t, readAll(t, output))
}

func waitUntilReaped(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, patience, time.Millisecond)
}

func TestWhatACommandLeavesRunningInTheBackgroundRunsOn(t *testing.T) {
	c, output := startScript(t, `sleep 600 & echo $!`)
	pid, err := strconv.Atoi(strings.TrimSpace(readLine(t, output)))
	require.NoError(t, err)
	waitFor(t, c)
	require.NoError(t, c.kill())
	require.NoError(t, syscall.Kill(pid, 0), "not killed by a signal that came after the command had ended")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Empty(t, readAll(t, output))
}

func TestACommandStartedUnderNohupIgnoresHangUps(t *testing.T) {
	run := exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`,
		testProgram(), "/bin/sh", "-c", "kill -HUP $$ $PPID; echo alive")
	run.Env = playing("run")
	output, err := run.CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "alive\n", string(output))
}
