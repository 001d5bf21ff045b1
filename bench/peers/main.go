// Command peers runs the same workload over this library and over others that do the same work, side by side, on
// redis-servers it spawns itself.
//
// The workload is acquire and release of a key that nobody else wants; with -waiting it is several lockers that
// want the same key and wait for it. The libraries take turns within every round, because the speed of a machine
// drifts by more than the differences of interest, and a ratio is taken only between two measurements of one
// round. Three numbers are shown for each quantity: the median of the rounds, the smallest and the largest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/redistest"
)

func main() {
	cfg, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	// Every dial that fails while a node is stopped would otherwise print a line into the tables.
	redis.SetLogger(silentLogger{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, cfg, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", explain(err))
		os.Exit(1)
	}
}

// run spawns the nodes, measures and prints. However it ends, the nodes are stopped before it returns.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	servers, err := redistest.Start(cfg.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redistest.StopAll(servers)) }()

	b := &bench{cfg: cfg, servers: servers, urls: redistest.URLs(servers), out: output{Writer: out, markdown: cfg.markdown}}
	if err := b.printEnvironment(ctx); err != nil {
		return err
	}
	if err := b.runWorkload(ctx); err != nil {
		return err
	}
	if cfg.memProfile != "" {
		return writeAllocProfile(cfg.memProfile)
	}
	return nil
}

func (b *bench) runWorkload(ctx context.Context) error {
	if b.cfg.waiting {
		return b.runWaiting(ctx, planOf(b.cfg))
	}
	healthy, err := b.runHealthy(ctx)
	if err != nil {
		return err
	}
	outage, err := b.runOutage(ctx)
	if err != nil {
		return err
	}
	printRatios(b.out, healthy, outage)
	return nil
}

// bench is what every section needs.
type bench struct {
	cfg     config
	servers []*redistest.Server
	urls    []string
	out     output
}

func explain(err error) string {
	switch {
	case errors.Is(err, redistest.ErrNoServer):
		return "no redis-server found: install one (Debian: apt-get install redis-server) and run again"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return err.Error()
}

type silentLogger struct{}

func (silentLogger) Printf(context.Context, string, ...any) {}
