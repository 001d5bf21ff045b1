package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// roleVariable makes this test program another program: a command that tests run.
const roleVariable = "REDLOCK_TEST_ROLE"

var roles = map[string]func(args []string){
	"exit": func(args []string) {
		status, _ := strconv.Atoi(args[0])
		os.Exit(status)
	},
	"copy": func([]string) { // one variable and the input to the output, another to the error output
		_, _ = os.Stdout.WriteString(os.Getenv("FOR_STDOUT"))
		_, _ = io.Copy(os.Stdout, os.Stdin)
		_, _ = os.Stderr.WriteString(os.Getenv("FOR_STDERR"))
	},
	"tree": func([]string) { // a command whose own child holds its output, too
		grandchild := exec.Command(testProgram())
		grandchild.Env = playing("hang")
		grandchild.Stdout = os.Stdout
		if err := grandchild.Run(); err != nil {
			os.Exit(1)
		}
	},
	"hang": func([]string) {
		_, _ = os.Stdout.WriteString("ready\n")
		time.Sleep(time.Hour)
	},
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		roles[role](os.Args[1:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func testProgram() string {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return program
}

// playing is the environment of a role. The race detector would have each process sleep for a second before it exits.
func playing(role string) []string {
	return append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// start starts a child whose output can be read; reading ends when all that have it have ended.
func start(t *testing.T, config childConfig) (*child, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	_ = r.SetReadDeadline(time.Now().Add(patience)) // where pipes cannot have one, the test's own limit is left
	config.stdout = w
	c, err := startChild(config)
	require.NoError(t, w.Close())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.kill()
		<-c.done()
	})
	return c, bufio.NewReader(r)
}

func play(t *testing.T, role string, args ...string) (*child, *bufio.Reader) {
	t.Helper()
	return start(t, childConfig{argv: append([]string{testProgram()}, args...), env: playing(role)})
}

func waitFor(t *testing.T, c *child) {
	t.Helper()
	select {
	case <-c.done():
	case <-time.After(patience):
		require.FailNow(t, "the command has not ended")
	}
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	return line
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

func TestTheStatusIsTheCommandsOwn(t *testing.T) {
	for _, want := range []int{0, 3, 255} {
		c, _ := play(t, "exit", strconv.Itoa(want))
		waitFor(t, c)
		assert.Equal(t, want, c.status())
	}
}

func TestACommandHasTheEnvironmentAndTheFilesItIsGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("input,"), 0o600))
	stdin, err := os.Open(path)
	require.NoError(t, err)
	defer stdin.Close()
	r, stderr, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()

	c, output := start(t, childConfig{
		argv:  []string{testProgram()},
		env:   append(playing("copy"), "FOR_STDOUT=variable,", "FOR_STDERR=error"),
		stdin: stdin, stderr: stderr,
	})
	require.NoError(t, stderr.Close())
	waitFor(t, c)
	assert.Equal(t, "variable,input,", readAll(t, output))
	assert.Equal(t, "error", readAll(t, r))
}

func TestKillEndsACommandWithItsGrandchildren(t *testing.T) {
	c, output := play(t, "tree")
	require.Equal(t, "ready\n", readLine(t, output))
	require.NoError(t, c.kill())
	waitFor(t, c)
	assert.NotZero(t, c.status())
	assert.Empty(t, readAll(t, output), "and the grandchild has let go of the output")
}

func TestSignalsForACommandThatHasEndedGoNowhere(t *testing.T) {
	c, _ := play(t, "exit", "0")
	waitFor(t, c)
	assert.NoError(t, c.forward(os.Interrupt))
	assert.NoError(t, c.terminate())
	assert.NoError(t, c.kill())
	assert.Zero(t, c.status())
}

func TestStatusesOfCommandsThatCannotBeStartedAreThoseOfShells(t *testing.T) {
	directory := t.TempDir()
	noProgram := filepath.Join(directory, "noprogram.exe")
	require.NoError(t, os.WriteFile(noProgram, []byte("no program"), 0o700))
	for _, tc := range []struct {
		name, command string
		want          int
	}{
		{"not on PATH", "redlock-test-no-such-command", 127},
		{"no such file", filepath.Join(directory, "missing"), 127},
		{"not a program", noProgram, 126},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := startChild(childConfig{argv: []string{tc.command}})
			require.Nil(t, c)
			require.Error(t, err)
			assert.Equal(t, tc.want, notStartedStatus(err), err)
		})
	}
}
