package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"

	asks   = `echo ready; read x; echo "<$x>"`
	sleeps = `echo ready; exec sleep 600`
)

func TestACommandReadsFromTheTerminalAndGivesItBack(t *testing.T) {
	s := newSession(t, nil, script(asks)...)
	s.tell("start")
	s.see("ready")
	assert.Equal(t, "command", s.tell("foreground"))
	s.press("hello\n")
	s.see("<hello>")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
}

func TestACommandThatCannotBeStartedGivesTheTerminalBack(t *testing.T) {
	path := t.TempDir() + "/noprogram"
	require.NoError(t, os.WriteFile(path, []byte("no program"), 0o700))
	s := newSession(t, nil, path)
	s.tell("start")
	assert.Equal(t, "exit 126, foreground: job", s.tell("wait"))
}

func TestAKilledCommandGivesTheTerminalBack(t *testing.T) {
	s := newSession(t, nil, script("kill -KILL $$")...)
	s.tell("start")
	assert.Equal(t, "exit 137, foreground: job", s.tell("wait"))
}

func TestCtrlCReachesTheCommandAlone(t *testing.T) {
	s := newSession(t, nil, script(sleeps)...)
	s.tell("start")
	s.see("ready")
	s.press(ctrlC)
	assert.Equal(t, "exit 130, foreground: job", s.tell("wait"))
	s.press("\n")
	s.see("\r\n")
	assert.NotContains(t, s.screen.String(), "run forwards")
}

func TestInAPipelineCtrlCIsForwarded(t *testing.T) {
	s := newSession(t, []string{"IN_PIPELINE=1"}, script(sleeps)...)
	s.tell("start")
	s.see("ready")
	assert.Equal(t, "job", s.tell("foreground"), "another part of the pipeline may want the terminal")
	s.press(ctrlC)
	s.see("run forwards interrupt")
	assert.Equal(t, "exit 130, foreground: job", s.tell("wait"))
}

func TestInAPipelineACommandGetsTheTerminalWhenItReads(t *testing.T) {
	s := newSession(t, []string{"IN_PIPELINE=1"}, script(asks)...)
	s.tell("start")
	s.see("ready")
	s.press("hello\n")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
	s.see("<hello>")
}

func TestCtrlZStopsUsWithTheCommandAndItGoesOnWithUs(t *testing.T) {
	s := newSession(t, nil, script(asks)...)
	s.tell("start")
	s.see("ready")
	s.press(ctrlZ)
	require.Equal(t, "stopped, foreground: job", s.tell("wait"))
	s.tell("fg")
	s.press("hello\n")
	s.see("<hello>")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
}

func TestBroughtForwardTheCommandHasTheTerminalAgain(t *testing.T) {
	s := newSession(t, nil, script(sleeps)...)
	s.tell("start")
	s.see("ready")
	s.press(ctrlZ)
	require.Contains(t, s.tell("wait"), "stopped")
	s.tell("fg")
	require.Eventually(t, func() bool { return s.tell("foreground") == "command" }, patience, time.Millisecond)
	s.press(ctrlC)
	assert.Equal(t, "exit 130, foreground: job", s.tell("wait"))
}

func TestCtrlZStopsAScriptThatRunsUs(t *testing.T) {
	job := append([]string{"/bin/sh", "-c", `"$0" "$@"; exit $?`, testProgram()}, script(asks)...)
	s := lead(t, nil, "shell", job...)
	s.tell("start")
	s.see("ready")
	s.press(ctrlZ)
	require.Equal(t, "stopped, foreground: job", s.tell("wait"))
	s.tell("fg")
	s.press("hello\n")
	s.see("<hello>")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
}

func TestInAPipelineCtrlZStopsUsWithTheCommandToo(t *testing.T) {
	s := newSession(t, []string{"IN_PIPELINE=1"}, script(sleeps)...)
	s.tell("start")
	s.see("ready")
	s.press(ctrlZ)
	require.Equal(t, "stopped, foreground: job", s.tell("wait"))
	s.tell("fg")
	assert.Equal(t, "job", s.tell("foreground"))
	s.press(ctrlC)
	assert.Equal(t, "exit 130, foreground: job", s.tell("wait"))
}

// counted returns how far the command has counted.
func counted(t *testing.T, path string) (n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(path)
		n, _ = strconv.Atoi(string(text))
		return n > 0
	}, patience, time.Millisecond)
	return n
}

func TestACommandWhoseLockWasLostWhileItWasStoppedDoesNotTakeOneMoreStep(t *testing.T) {
	for _, tc := range []struct {
		name, start string
		stop        func(*session)
		goOn, end   string
	}{
		{"Ctrl-Z, fg", "start", func(s *session) { s.press(ctrlZ) }, "fg", "exit 137, foreground: job"},
		{"Ctrl-Z, bg", "start", func(s *session) { s.press(ctrlZ) }, "bg", "exit 137, foreground: shell"},
		{"SIGTSTP in the background", "start &", func(s *session) { s.tell("TSTP") }, "bg", "exit 137, foreground: shell"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := t.TempDir() + "/count"
			s := newSession(t, []string{"LOST=1", "ROLE_OF_COMMAND=count"}, testProgram(), path)
			s.tell(tc.start)
			counted(t, path)
			tc.stop(s)
			require.Contains(t, s.tell("wait"), "stopped")
			before := counted(t, path)
			s.tell(tc.goOn)
			require.Equal(t, tc.end, s.tell("wait"))
			assert.Equal(t, before, counted(t, path))
		})
	}
}

func TestInTheBackgroundTheTerminalIsLeftAlone(t *testing.T) {
	s := newSession(t, nil, script(sleeps)...)
	s.tell("start &")
	s.see("ready")
	assert.Equal(t, "shell", s.tell("foreground"))
	s.tell("TERM")
	assert.Equal(t, "exit 143, foreground: shell", s.tell("wait"))
}

func TestACommandThatReadsInTheBackgroundStopsUsUntilWeAreBroughtForward(t *testing.T) {
	s := newSession(t, nil, script(asks)...)
	s.tell("start &")
	require.Equal(t, "stopped, foreground: shell", s.tell("wait"))
	s.tell("bg")
	require.Equal(t, "stopped, foreground: shell", s.tell("wait"), "asking again, it is told the same")
	s.tell("fg")
	s.press("hello\n")
	s.see("<hello>")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
}

func TestAStoppedCommandDoesNotKeepTheTerminal(t *testing.T) {
	s := newSession(t, nil, script("kill -STOP $$; "+asks)...)
	s.tell("start")
	require.Equal(t, "stopped, foreground: job", s.tell("wait"))
	s.tell("fg")
	s.press("hello\n")
	s.see("<hello>")
	assert.Equal(t, "exit 0, foreground: job", s.tell("wait"))
}

// As the only program of a container or of an ssh session we would stay stopped for ever.
func TestWithoutAShellToGoBackToCtrlZStopsNothing(t *testing.T) {
	s := lead(t, nil, "run", script(asks)...)
	s.see("ready")
	s.press(ctrlZ)
	s.press("hello\n")
	s.see("<hello>")
}
