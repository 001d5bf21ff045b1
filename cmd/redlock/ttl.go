package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

func (a *app) ttlCommand() *cobra.Command {
	var inMillis bool
	c := &cobra.Command{
		Use:   "ttl KEY",
		Short: "Print how long a key will be held",
		Long: `Print how many seconds a quorum of the nodes will hold the key if nobody renews it, rounded up;
-1 for a lock without expiry; -2 when the key is not held, as redis-cli TTL does on one node.

Exit status: 0 when the key is held, 1 when it is not, 69 when too few nodes answered to tell.`,
		Example: `  sh:          redlock ttl lock:jobprocessor
               if redlock ttl lock:jobprocessor >/dev/null; then echo busy; fi
  PowerShell:  redlock ttl lock:jobprocessor
               if ($LASTEXITCODE -eq 0) { "busy" }`,
		Args: needKeys(1, 1),
		RunE: func(_ *cobra.Command, keys []string) error {
			return a.withLocker(func(ctx context.Context, l *redlock.Locker) error {
				state, err := l.Inspect(ctx, keys[0])
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(a.out, ttlNumber(state, inMillis)); err != nil {
					return err
				}
				if !state.Held {
					return &statusError{status: exitNo}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&inMillis, "ms", false, "in milliseconds, as redis-cli PTTL does")
	return c
}

func ttlNumber(state *redlock.State, inMillis bool) int64 {
	switch {
	case !state.Held:
		return -2
	case state.TTL < 0:
		return -1
	case inMillis:
		return state.TTL.Milliseconds()
	}
	return int64((state.TTL + time.Second - 1) / time.Second)
}
