// Command bench measures what a lock on a quorum costs on nodes of your own, or on nodes it brings along.
//
//	go run ./bench                                    five embedded nodes, a few seconds, no set-up
//	go run ./bench -spawn 5                           five redis-server processes
//	go run ./bench -nodes redis://a:6379,redis://b:6379,redis://c:6379 -c 64 -d 30s
//
// Each caller acquires, renews and releases, over and over, each on keys of its own unless -keys asks for
// fewer keys than callers. While they do, every node is pinged over a connection of its own. The output
// compares an acquire with the floor: the round trip of the last node that a quorum has to wait for.
//
// That is a closed loop: a stall of the nodes holds up the callers, and what they did not begin meanwhile is
// not measured. With -rate cycles start on schedule and count from it, so that a stall shows in all that it held
// up; -fault brings outages about on spawned nodes, -rtt puts them at a distance, and -contend makes the
// callers wait for each other.
//
// -sweep runs the closed loop with more and more callers or nodes.
//
// With -json one document goes to standard output instead of the table; type result (result.go) describes it, type
// sweepResult (sweep.go) that of a sweep.
//
// bench compare a.json b.json prints two such documents side by side; -report and -hgrm leave files behind.
//
// Exit status: 0 measured, 1 no lock could be taken, no nodes could be set up or a file not be written, 2 wrong flags,
// 130 interrupted (what was measured until then is printed and marked as partial). A second Ctrl-C ends
// the command at once; spawned servers are stopped all the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

const (
	exitMeasured    = 0
	exitNothing     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	redis.SetLogger(silent{}) // go-redis prints every failed dial; here failures are counted and shown
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{stdout: os.Stdout, stderr: os.Stderr}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		c.abandon()
		os.Exit(exitInterrupted)
	}()
	os.Exit(c.run(ctx, os.Args[1:]))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// run is the whole command: it measures until the duration or ctx ends, prints and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&command{stdout: stdout, stderr: stderr}).run(ctx, args)
}

// command is one run of the tool.
type command struct {
	stdout, stderr io.Writer
	nodes          atomic.Pointer[nodeSet] // set while there are nodes to stop
	total          *recorder               // what all callers recorded, once measured
}

// abandon stops the nodes without waiting for the callers.
func (c *command) abandon() {
	if nodes := c.nodes.Load(); nodes != nil {
		_ = nodes.stop() // nobody is left to tell
	}
}

func (c *command) run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "compare" {
		return c.compare(args[1:])
	}
	s, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(c.stdout, usage())
		return exitMeasured
	case err != nil:
		c.complain(err)
		return exitUsage
	}
	if s.sweep != "" {
		return c.runSweep(ctx, s)
	}
	r, err := c.measure(ctx, s)
	var missing []error
	if err == nil {
		err = c.print(s, r)
		missing = s.outputs.write(r, c.total)
	}
	for _, m := range missing {
		c.complain(m)
	}
	if err != nil {
		c.complain(err)
		return exitNothing
	}
	switch {
	case r.Partial:
		c.complain(fmt.Errorf("interrupted after %s of %s: the result is partial", milliText(r.MeasuredMs), milliText(r.Inputs.DurationMs)))
		return exitInterrupted
	case r.locks() == 0:
		c.complain(fmt.Errorf("no lock could be taken; %d of %d nodes answered pings, %d needed: %s",
			r.answering(), len(r.Nodes), r.Quorum, r.firstFailure()))
		return exitNothing
	case len(missing) > 0:
		return exitNothing
	}
	return exitMeasured
}

// measure sets up the nodes, runs the load on them and takes them down again.
func (c *command) measure(ctx context.Context, s settings) (r *result, err error) {
	err = c.onNodes(s, func(nodes *nodeSet) (err error) {
		r, err = c.measureOn(ctx, s, nodes)
		return err
	})
	return r, err
}

func (c *command) onNodes(s settings, use func(*nodeSet) error) error {
	nodes, err := openNodes(s)
	if err != nil {
		return err
	}
	c.nodes.Store(nodes)
	defer func() {
		c.complain(nodes.stop())
		c.nodes.Store(nil)
	}()
	return use(nodes)
}

// measureOn runs the load.
func (c *command) measureOn(ctx context.Context, s settings, nodes *nodeSet) (*result, error) {
	lockers, err := openLockers(nodes.urls, s)
	if err != nil {
		return nil, err
	}
	l := newLoad(lockers, s)
	stopTimers, err := preciseTimers(s, l)
	if err != nil {
		return nil, errors.Join(err, closeLockers(lockers))
	}
	defer stopTimers()
	probes := startProbes(nodes, l.from)
	line := startProgress(c.stderr, l)
	faults := startFaults(nodes, s.faults, l.from)
	l.run(ctx)
	partial := ctx.Err() != nil
	spans := faults.stop() // before anything that needs the nodes to answer
	line.stop()
	probes.stop()
	if !partial { // a second Ctrl-C stops them while this goes on
		c.complain(nodes.died())
	}
	c.complain(closeLockers(lockers)) // what was measured stands
	r := newResult(s, nodes, l, probes.nodes, partial)
	r.Faults = spans
	c.total = l.total()
	return r, nil
}

func (c *command) print(s settings, r *result) error {
	if s.json {
		return writeJSON(c.stdout, r)
	}
	return writeTable(c.stdout, r)
}

func (c *command) complain(err error) {
	if err != nil {
		fmt.Fprintf(c.stderr, "bench: %v\n", err)
	}
}
