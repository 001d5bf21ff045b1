package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runOutage measures with nodes stopped (SIGSTOP): they accept connections and commands and answer nothing, which
// is harder on a client than a node that is gone.
func (b *bench) runOutage(ctx context.Context) (results, error) {
	all := results{}
	if b.cfg.minority() == 0 {
		fmt.Fprintf(b.out, "\nNo section with stopped nodes: no quorum would be left of %d.\n", b.cfg.nodes)
		return all, nil
	}
	for _, callers := range b.cfg.outageCallers() {
		for range b.cfg.rounds {
			for _, lib := range b.libraries() {
				if err := b.outageRound(ctx, lib, callers, all); err != nil {
					return nil, err
				}
			}
		}
		b.printOutage(all, callers)
	}
	return all, nil
}

func (b *bench) outageRound(ctx context.Context, lib library, callers int, all results) error {
	var err error
	switch lib.name {
	case nameRedlock:
		err = b.outageOfOurs(ctx, lib, callers, all)
	case nameRedislock, nameRueidislock:
		// Their one node is either up, and then nothing differs from the healthy state, or stopped, and then
		// there is no lock to be had.
	default:
		err = b.outageOfRival(ctx, lib, callers, all)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("%s: %w", lib.name, err)
	}
	return nil
}

// outageOfOurs measures the healthy state again, seconds before the nodes stop: the ratio to it is what counts,
// and the machine must be the same for both.
func (b *bench) outageOfOurs(ctx context.Context, lib library, callers int, all results) (err error) {
	s, err := lib.open(ctx, b.urls, b.cfg.poolSize(callers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	defer func() { err = errors.Join(err, b.resumeAll()) }()
	b.warmUp(ctx, s, callers)
	all.at(place{lib.name, callers, 0}).add(b.measure(ctx, s, callers))
	for stopped := 1; stopped <= b.stoppedMax(); stopped++ {
		if err := b.pause(stopped); err != nil {
			return err
		}
		// No pause between the stop and the measurement: the moment in which the nodes stop is the hard one.
		all.at(place{lib.name, callers, stopped}).add(b.measure(ctx, s, callers))
	}
	return nil
}

// outageOfRival gives a library that may wait for the stopped node a bounded time, and lets the stuck callers
// come back after it, when the node runs again.
func (b *bench) outageOfRival(ctx context.Context, lib library, callers int, all results) (err error) {
	s, err := lib.open(ctx, b.urls, b.cfg.poolSize(callers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b.warmUp(ctx, s, callers)
	if err := b.pause(1); err != nil {
		return errors.Join(err, b.resumeAll())
	}
	w := startWorkload(ctx, s, callers, b.cfg.limit())
	all.at(place{lib.name, callers, 1}).add(w.collect(ctx, b.cfg.limit()))
	err = b.resumeAll()
	w.wait()
	sleep(ctx, 100*time.Millisecond) // calls that nobody waited for end as well, before the clients are closed
	return err
}

// stoppedMax is the most nodes stopped at once: two are asked for, where a quorum is left.
func (b *bench) stoppedMax() int { return min(2, b.cfg.minority()) }

// pause stops the last nodes, so that the first, the one of the library with one node, always runs.
func (b *bench) pause(nodes int) error {
	var errs []error
	for _, server := range b.servers[len(b.servers)-nodes:] {
		errs = append(errs, server.Pause())
	}
	return errors.Join(errs...)
}

func (b *bench) resumeAll() error {
	var errs []error
	for _, server := range b.servers[len(b.servers)-b.stoppedMax():] {
		errs = append(errs, server.Resume())
	}
	return errors.Join(errs...)
}

// printOutage shows ours and the others' in one table: what a stopped node costs is read across its rows.
func (b *bench) printOutage(all results, callers int) {
	fmt.Fprintf(b.out, "\n%s, nodes stopped; %s, %v for redlock, %v for the others: median (min–max)\n\n",
		count(callers, "caller"), count(b.cfg.rounds, "round"), b.cfg.each, b.cfg.limit())
	b.printTable(all, outageRows(b.libraries(), callers, b.cfg.nodes, b.stoppedMax()))
}

// outageRows has each library's conditions together. Some of the rows are of nobody: others than ours are measured
// with one node stopped alone.
func outageRows(libs []library, callers, nodes, stoppedMax int) []tableRow {
	var rows []tableRow
	for _, lib := range libs {
		for stopped := 0; stopped <= stoppedMax; stopped++ {
			condition := fmt.Sprintf("%d of %d stopped", stopped, nodes)
			if stopped == 0 {
				condition = "healthy just before"
			}
			rows = append(rows, tableRow{lib.name + ", " + condition, place{lib.name, callers, stopped}})
		}
	}
	return rows
}
