package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

const (
	minRunTTL = time.Second // below it, starting and ending processes takes too large a part of it
	forever   = "forever"
)

// run is one `redlock run`.
type run struct {
	app     *app
	key     string
	command []string

	ttl     time.Duration
	wait    string
	maxHold time.Duration
	grace   time.Duration
	fence   bool

	exitHeld, exitNoQuorum, exitLost int
}

func (a *app) runCommand() *cobra.Command {
	r := &run{app: a}
	c := &cobra.Command{
		Use:   "run KEY -- command args…",
		Short: "Run a command while the lock on KEY is held",
		Long: `Run a command while the lock on KEY is held, like flock(1) on a quorum of nodes.

The lock is renewed while the command runs and released when it has ended. The command finds
REDLOCK_KEY, REDLOCK_TOKEN and, with --fence, REDLOCK_FENCE in its environment; it has its
input, its output and its terminal as without redlock, and gets the signals that redlock gets,
in a process group of its own.

If the nodes do not renew the lock, the command is asked to stop (SIGTERM; Ctrl-Break on Windows)
--grace before the validity ends, and is killed before it ends: before anybody else can get the
lock. If the lock is lost all at once, because somebody deleted its keys, it is asked and killed
in the same way, but somebody else may have the lock meanwhile; --grace 0s kills it at once. A
command that was stopped with Ctrl-Z until its lock ran out is killed when it is continued.

If redlock itself is killed, the key is free after the ttl, and on Linux and Windows the command
is killed too. Do not stop it alone (kill -STOP): nobody would watch the command; Ctrl-Z stops
both. What a command leaves running in the background when it ends runs on without the lock,
except on Windows. Where a key is locked with different ttls, --max-ttl must name the longest.

Exit status: the command's own, 128+n if signal n ended it, 126 or 127 if it cannot be started;
75 when somebody else has the lock, 69 when too few nodes answered, 74 when the lock was lost
before the command had ended, 64 for wrong arguments.`,
		Example: `  sh:          redlock run --ttl 20s --wait 30s nightly-report -- ./report.sh --all
               redlock run --exit-held 0 nightly-report -- ./report.sh    # for cron: no error if another has it
  PowerShell:  redlock run --ttl 20s --wait 30s nightly-report -- powershell -File report.ps1`,
		Args: r.arguments,
		RunE: func(*cobra.Command, []string) error { return r.execute() },
	}
	flags := c.Flags()
	flags.DurationVar(&r.ttl, "ttl", 20*time.Second, "life of the lock without a renewal, at least 1s; renewed before ttl/2 is over")
	flags.StringVar(&r.wait, "wait", "0", `how long to wait for the lock: 0, a duration, or "forever"`)
	flags.DurationVar(&r.maxHold, "max-hold", 0, "end the lock, and the command, after this time however often it was renewed (default: no limit)")
	flags.DurationVar(&r.grace, "grace", 0, "`time` between asking the command to stop and killing it, at most ttl/3 (default ttl/4)")
	flags.BoolVar(&r.fence, "fence", false, "set REDLOCK_FENCE: a number that grows from lock to lock of this key")
	flags.IntVar(&r.exitHeld, "exit-held", exitHeld, "exit status when somebody else has the lock")
	flags.IntVar(&r.exitNoQuorum, "exit-no-quorum", exitNoQuorum, "exit status when too few nodes answered")
	flags.IntVar(&r.exitLost, "exit-lost", exitLost, "exit status when the lock was lost before the command had ended")
	return c
}

func (r *run) arguments(c *cobra.Command, args []string) error {
	if c.ArgsLenAtDash() != 1 || len(args) < 2 || args[0] == "" {
		return usageError(c, "needed: one key, then -- and the command: "+c.UseLine())
	}
	r.key, r.command = args[0], args[1:]
	if r.ttl < minRunTTL {
		return usageError(c, fmt.Sprintf("--ttl %v is below %v", r.ttl, minRunTTL))
	}
	if !c.Flags().Changed("grace") {
		r.grace = r.ttl / 4
	}
	if r.grace < 0 || r.grace > r.ttl/3 {
		return usageError(c, fmt.Sprintf("--grace %v is outside 0s … %v, a third of the ttl", r.grace, r.ttl/3))
	}
	for _, status := range []int{r.exitHeld, r.exitNoQuorum, r.exitLost} {
		if status < 0 || status > 255 {
			return usageError(c, fmt.Sprintf("exit status %d is outside 0 … 255", status))
		}
	}
	if _, err := r.waitLimit(); err != nil {
		return usageError(c, err.Error())
	}
	return nil
}

// waitLimit returns the option for --wait; nil means one attempt.
func (r *run) waitLimit() (redlock.AcquireOption, error) {
	if r.wait == forever {
		return redlock.Wait(0), nil
	}
	if r.wait == "0" {
		return nil, nil
	}
	d, err := time.ParseDuration(r.wait)
	switch {
	case err != nil || d < 0:
		return nil, fmt.Errorf("--wait %q is none of 0, a duration like 30s, forever", r.wait)
	case d == 0:
		return nil, nil
	}
	return redlock.Wait(d), nil
}

// execute acquires, runs the command and releases. Signals that come before the command runs end the waiting.
func (r *run) execute() error {
	surviveBrokenPipes()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	s, err := r.app.settings()
	if err != nil {
		return err
	}
	var opts []redlock.Option
	if r.fence {
		opts = append(opts, redlock.WithFencing())
	}
	l, err := s.open(opts...)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the outcome is known; what nodes are still owed, they get or let expire
	lock, err := r.acquire(l, signals)
	if err != nil {
		return r.withStatus(err)
	}
	return r.hold(lock, signals)
}

// surviveBrokenPipes has a message that nobody can read any more fail, instead of ending us: nobody would watch the command.
// Where SIGPIPE is ignored already, the command shall inherit that, and would not if we caught it.
func surviveBrokenPipes() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// acquire waits for the lock, or for the first signal.
func (r *run) acquire(l *redlock.Locker, signals <-chan os.Signal) (*redlock.Lock, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var interrupted error
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case s := <-signals:
			interrupted = &statusError{status: statusOfSignal(s)}
			cancel()
		case <-ctx.Done():
		}
	})
	lock, err := r.ask(ctx, l)
	cancel()
	listening.Wait() // from here on signals are for the command
	switch {
	case interrupted != nil && lock != nil:
		return nil, errors.Join(interrupted, lock.Release(context.Background()))
	case interrupted != nil:
		return nil, interrupted
	}
	return lock, err
}

func (r *run) ask(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
	opts := []redlock.AcquireOption{redlock.AutoRenew()}
	if r.maxHold != 0 {
		opts = append(opts, redlock.MaxHold(r.maxHold))
	}
	wait, _ := r.waitLimit() // checked with the arguments
	if wait == nil {
		return l.TryAcquire(ctx, r.key, r.ttl, opts...)
	}
	return l.Acquire(ctx, r.key, r.ttl, append(opts, wait)...)
}

func statusOfSignal(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitInterrupted
}

// hold runs the command, and releases the lock once it has ended. After a panic the lock is not released: the command may
// run on.
func (r *run) hold(lock *redlock.Lock, signals <-chan os.Signal) error {
	g := newGuardian(lock, r)
	c, err := startChild(childConfig{
		argv: r.command, env: r.environment(lock), mayGoOn: g.mayGoOn,
	})
	if err != nil {
		return errors.Join(&statusError{notStartedStatus(err), err}, lock.Release(context.Background()))
	}
	failed := g.watch(c, signals)
	released := lock.Release(context.Background())
	g.awaitReaders()
	switch {
	case failed != nil: // and told
		return &statusError{status: r.exitLost}
	case errors.Is(released, redlock.ErrLost):
		return &statusError{r.exitLost, fmt.Errorf("%w; the lock was lost while the command ran, another one may have run at the same time", released)}
	case released != nil:
		r.app.tell("%w", released)
	}
	if status := c.status(); status != 0 {
		return &statusError{status: status}
	}
	return nil
}

func (r *run) environment(lock *redlock.Lock) []string {
	own := []string{"REDLOCK_KEY=" + lock.Key(), "REDLOCK_TOKEN=" + lock.Token()}
	if r.fence {
		own = append(own, "REDLOCK_FENCE="+strconv.FormatInt(lock.Fence(), 10))
	}
	var env []string
	for _, variable := range os.Environ() { // an outer lock's fence is not this one's
		switch name, _, _ := strings.Cut(variable, "="); strings.ToUpper(name) {
		case "REDLOCK_KEY", "REDLOCK_TOKEN", "REDLOCK_FENCE":
		default:
			env = append(env, variable)
		}
	}
	return append(env, own...)
}

// withStatus gives an acquire's error the exit status that was asked for. What is no failure to the caller is
// not told either.
func (r *run) withStatus(err error) error {
	if _, ok := errors.AsType[*statusError](err); ok {
		return err
	}
	status := exitUsage // an argument that the library refused
	switch {
	case errors.Is(err, redlock.ErrHeld):
		status = r.exitHeld
	case errors.Is(err, redlock.ErrNoQuorum):
		status = r.exitNoQuorum
	}
	if status == 0 {
		return nil
	}
	return &statusError{status, err}
}

// tell prints one line for people, while the command goes on.
func (a *app) tell(format string, args ...any) {
	fmt.Fprintln(a.err, errorLine(fmt.Errorf(format, args...)))
}
