package main

import (
	"context"

	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock"
)

const (
	inspectsAtOnce = 16
	minWatch       = 100 * time.Millisecond
)

// status is one `redlock status`.
type status struct {
	app   *app
	json  bool
	nodes bool
	watch bool
	every time.Duration // of watch
}

func (a *app) statusCommand() *cobra.Command {
	s := &status{app: a}
	c := &cobra.Command{
		Use:   "status KEY…",
		Short: "Show who holds keys, and for how long",
		Long: `Show who holds keys, and for how long, as the nodes say at this moment. It changes nothing.

A key is held if a quorum of the nodes holds the same token; TTL is how long a quorum will. The
token begins with the owner's name where a redlock wrote it. Nodes that differ from that are
listed below the key; --all-nodes lists all.

Exit status: 0; 69 when too few nodes answered to tell.`,
		Example: `  sh:          redlock status lock:jobprocessor lock:invoices
               redlock status --watch lock:jobprocessor
               redlock status --json lock:jobprocessor | jq -r '.[0].token'
  PowerShell:  redlock status lock:jobprocessor lock:invoices
               (redlock status --json lock:jobprocessor | ConvertFrom-Json)[0].token`,
		Args: needKeys(1, 0),
		RunE: func(c *cobra.Command, keys []string) error {
			if s.every < minWatch {
				return usageError(c, fmt.Sprintf("--every %v is below %v", s.every, minWatch))
			}
			return a.withLocker(func(ctx context.Context, l *redlock.Locker) error { return s.execute(ctx, l, keys) })
		},
	}
	flags := c.Flags()
	flags.BoolVar(&s.json, "json", false, "print one JSON array, with one element for each key")
	flags.BoolVar(&s.nodes, "all-nodes", false, "list what every node holds")
	flags.BoolVar(&s.watch, "watch", false, "show it again and again, until Ctrl-C")
	flags.DurationVar(&s.every, "every", time.Second, "the `time` from one look to the next, with --watch")
	return c
}

func (s *status) execute(ctx context.Context, l *redlock.Locker, keys []string) error {
	if s.watch {
		return s.follow(ctx, l, keys)
	}
	views, err := inspectAll(ctx, l, keys)
	if err != nil {
		return err
	}
	if err := s.print(views); err != nil {
		return err
	}
	return unknownIn(views)
}

func (s *status) print(views []view) error {
	if s.json {
		return writeJSON(s.app.out, viewsJSON(views))
	}
	return writeViews(s.app.out, views, s.nodes)
}

// follow shows the keys until ctx ends.
func (s *status) follow(ctx context.Context, l *redlock.Locker, keys []string) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		views, err := inspectAll(ctx, l, keys)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.redraw(views)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// view is what is known of a key: its state, and why that is not certain.
type view struct {
	state *redlock.State
	err   error // ErrNoQuorum
}

// inspectAll asks about all keys; an error is one that concerns them all.
func inspectAll(ctx context.Context, l *redlock.Locker, keys []string) ([]view, error) {
	views := make([]view, len(keys))
	var group errgroup.Group
	group.SetLimit(inspectsAtOnce)
	for i, key := range keys {
		group.Go(func() error {
			state, err := l.Inspect(ctx, key)
			views[i] = view{state, err}
			if state == nil {
				return err
			}
			return nil
		})
	}
	return views, group.Wait()
}

// unknownIn returns the error of the first key of which too little is known.
func unknownIn(views []view) error {
	for _, v := range views {
		if v.err != nil {
			return v.err
		}
	}
	return nil
}
