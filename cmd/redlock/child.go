package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// childConfig says what startChild starts.
type childConfig struct {
	argv                  []string    // the command and its arguments; the command is looked up on PATH, by the rules of os/exec
	env                   []string    // all of its environment; nil: ours
	stdin, stdout, stderr *os.File    // nil: ours
	mayGoOn               func() bool // asked before a command that was stopped together with us goes on; nil: it may
}

func (c childConfig) command() *exec.Cmd {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.env
	cmd.Stdin = cmp.Or(c.stdin, os.Stdin)
	cmd.Stdout = cmp.Or(c.stdout, os.Stdout)
	cmd.Stderr = cmp.Or(c.stderr, os.Stderr)
	return cmd
}

// What shells answer for a command that cannot be started.
const (
	exitCannotExecute = 126
	exitNotFound      = 127
)

// notStartedStatus returns the exit status for an error of startChild.
func notStartedStatus(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotExecute
}
