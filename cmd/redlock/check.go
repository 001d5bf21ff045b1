package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

func (a *app) checkCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check whether the nodes are fit for locks",
		Long: `Check whether the nodes are fit for locks: what they are and how they are set up, what the user
may do there, how far their clocks are off, and whether they are independent of each other. Each
finding says what it means and what to do; docs/check.md lists them all. It writes nothing but
one key, which it removes, under --prefix.

Exit status, as monitoring systems expect it: 0 when there is nothing to do, 1 when there are
warnings, 2 when something is critical.`,
		Example: `  sh:          redlock check
               redlock check --json | jq -r '.findings[] | select(.severity == "critical") | .text'
  PowerShell:  redlock check
               (redlock check --json | ConvertFrom-Json).findings | Where-Object severity -eq critical`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 { // not quoted: it may be a URL with a password
				return usageError(c, "no arguments are taken; --nodes names nodes")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return a.withLocker(func(ctx context.Context, l *redlock.Locker) error { return a.check(ctx, l, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) check(ctx context.Context, l *redlock.Locker, asJSON bool) error {
	report, err := l.Check(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(a.out, reportJSON(report))
	} else {
		err = writeReport(a.out, report)
	}
	if err != nil {
		return err
	}
	return verdict(report)
}

// verdict is the exit status for the worst finding.
func verdict(r *redlock.Report) error {
	if len(r.Findings) == 0 || r.Findings[0].Severity == redlock.Info {
		return nil
	}
	return &statusError{status: int(r.Findings[0].Severity)}
}

func findingCounts(r *redlock.Report) string {
	var counts [redlock.Critical + 1]int
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	plural := "s"
	if counts[redlock.Warning] == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d critical, %d warning%s, %d for information", counts[redlock.Critical], counts[redlock.Warning], plural, counts[redlock.Info])
}
