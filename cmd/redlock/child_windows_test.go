package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func init() {
	roles["owner"] = func([]string) {
		c, err := startChild(childConfig{argv: []string{testProgram()}, env: playing("tree")})
		if err != nil {
			panic(err)
		}
		<-c.done()
	}
	roles["break"] = func([]string) {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		_, _ = os.Stdout.WriteString("ready\n")
		<-signals
		os.Exit(7)
	}
	roles["leave"] = func([]string) {
		grandchild := exec.Command(testProgram())
		grandchild.Env = playing("hang")
		grandchild.Stdout = os.Stdout
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
	}
}

func TestTheWholeJobEndsWithUs(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	owner := exec.Command(testProgram())
	owner.Env = playing("owner")
	owner.Stdout = w
	require.NoError(t, owner.Start())
	require.NoError(t, w.Close())
	defer func() { _ = owner.Wait() }()
	output := bufio.NewReader(r)
	require.Equal(t, "ready\n", readLine(t, output))
	require.NoError(t, owner.Process.Kill())
	assert.Empty(t, readAll(t, output), "the command and the grandchild have let go of the output")
}

func TestWhatACommandLeavesRunningEndsWithIt(t *testing.T) {
	c, output := play(t, "leave")
	waitFor(t, c)
	assert.Zero(t, c.status())
	readAll(t, output) // ends only when the grandchild has
}

func TestTerminateIsACtrlBreak(t *testing.T) {
	c, output := play(t, "break")
	require.Equal(t, "ready\n", readLine(t, output))
	if err := c.terminate(); err != nil {
		t.Skip("no console here: ", err)
	}
	waitFor(t, c)
	assert.Equal(t, 7, c.status())
}

func TestAnExitCodeIsAnUnsigned32BitNumber(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("it needs an int of 64 bits")
	}
	c, _ := play(t, "exit", strconv.FormatInt(0xC000013A, 10))
	waitFor(t, c)
	assert.EqualValues(t, uint32(0xC000013A), c.status())
}
