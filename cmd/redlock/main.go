// Command redlock runs a command while it holds a lock on a quorum of Redis nodes, shows who holds a key, frees
// keys, and checks whether the nodes are fit for locks. `redlock --help` explains it.
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"
)

func main() {
	redis.SetLogger(silent{}) // it would print failed dials to stderr; our errors name the nodes
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
		asks:    term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		redraws: canRedraw(os.Stdout),
	}
	os.Exit(a.execute(os.Args[1:]))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
