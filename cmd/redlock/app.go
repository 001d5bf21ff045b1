package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

// app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	asks     bool // somebody can be asked on a terminal
	redraws  bool // out is a terminal that can be drawn anew
	nodes    nodeFlags
}

// execute runs a command line and returns the exit status; an error is printed, in one line.
func (a *app) execute(args []string) int {
	root := a.command()
	root.SetArgs(args)
	err := root.Execute()
	if text := errorLine(err); text != "" {
		fmt.Fprintln(a.err, text)
	}
	return statusOf(err)
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "redlock",
		Short: "Locks on a quorum of Redis nodes, for the command line",
		Long: `redlock holds locks on a quorum of independent Redis nodes (Redis, Valkey, Memurai).

Nodes are host:port or URLs, separated by commas: redis://[user@]host[:port][/database], or
rediss:// for TLS. They come from --nodes, from REDLOCK_NODES, or from a config file in YAML,
which is looked for at --config, at REDLOCK_CONFIG, then at redlock/config.yaml in the user's
directory for configuration:

    nodes: [10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379]
    username: locks             # optional
    password: …                 # keep the file to yourself: chmod 600
    prefix: "app1:"             # optional: before every key, as WithKeyPrefix does
    node-timeout: 200ms         # optional
    max-ttl: 1m                 # needed where a key is locked with different ttls: the longest

Passwords come from that file, from REDLOCK_PASSWORD (with REDLOCK_USERNAME), or stand in the
URLs of REDLOCK_NODES or of the file; --nodes takes none, since every user of a machine can read
command lines.`,
		Example: `  sh:          export REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379
               redlock run nightly-report -- ./report.sh
  PowerShell:  $env:REDLOCK_NODES = "10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379"
               redlock run nightly-report -- powershell -File report.ps1`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          unknownCommand,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	a.nodes.register(root.PersistentFlags())
	root.AddCommand(a.runCommand(), a.statusCommand(), a.ttlCommand(), a.releaseCommand(), a.checkCommand())
	return root
}

// unknownCommand does not quote what it got: it may be a URL with a password.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		return usageError(root, "no such command; did you mean "+like[0]+"?")
	}
	return usageError(root, "no such command")
}

// needKeys accepts arguments that are keys, from least to most of them; most 0 means any number.
func needKeys(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return usageError(c, "needed: "+c.UseLine())
		}
		for _, key := range args {
			if key == "" {
				return usageError(c, "an empty key")
			}
		}
		return nil
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.Join([]string{info.Main.Version, info.GoVersion}, " ")
}

// withLocker runs f with a Locker on the configured nodes. Ctrl-C ends f's ctx, and what f returns then is
// of no interest.
func (a *app) withLocker(f func(ctx context.Context, l *redlock.Locker) error) error {
	return a.withNodes(func(ctx context.Context, _ settings, l *redlock.Locker) error { return f(ctx, l) })
}

func (a *app) withNodes(f func(ctx context.Context, s settings, l *redlock.Locker) error) error {
	s, err := a.settings()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := s.open()
	if err != nil {
		return err
	}
	err = f(ctx, s, l)
	if ctx.Err() != nil { // and nobody waits for nodes that hang, as Close does
		if errors.Is(err, ctx.Err()) {
			err = &statusError{status: exitInterrupted}
		}
		return err
	}
	_ = l.Close() // nothing is held any more, and what a node is still owed it gets or lets expire
	return err
}
