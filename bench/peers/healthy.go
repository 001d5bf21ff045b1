package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// The length of a warm-up. Clients connect as callers come; at 256 callers and five nodes that took half a second,
// which must not fall into the measurement.
const (
	warmUpBase      = 200 * time.Millisecond
	warmUpPerCaller = 3 * time.Millisecond
)

// runHealthy measures with every node up, one table per number of callers.
func (b *bench) runHealthy(ctx context.Context) (results, error) {
	all := results{}
	for _, callers := range b.cfg.callers {
		if err := b.measureHealthy(ctx, callers, all); err != nil {
			return nil, err
		}
		fmt.Fprintf(b.out, "\n%s, all %d nodes up, %s of %v: median (min–max)\n\n",
			count(callers, "caller"), b.cfg.nodes, count(b.cfg.rounds, "round"), b.cfg.each)
		b.printTable(all, healthyRows(b.libraries(), callers))
	}
	return all, nil
}

func (b *bench) measureHealthy(ctx context.Context, callers int, all results) error {
	for round := range b.cfg.rounds {
		for _, lib := range b.libraries() {
			m, err := b.turn(ctx, lib, callers, round)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", lib.name, err)
			}
			all.at(place{lib.name, callers, 0}).add(m)
		}
	}
	return nil
}

// turn opens a library, measures and closes it. Open beside each other, one library's connections would make the
// heap of all larger and so the garbage collection of all rarer: a number would depend on who else is in the run.
func (b *bench) turn(ctx context.Context, lib library, callers, round int) (m samples, err error) {
	s, err := lib.open(ctx, b.urls, b.cfg.poolSize(callers))
	if err != nil {
		return samples{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b.warmUp(ctx, s, callers)
	stopProfile, err := b.profile(lib.name, callers, round)
	if err != nil {
		return samples{}, err
	}
	m = b.measure(ctx, s, callers)
	return m, stopProfile()
}

// warmUp makes connections and loads scripts, as in a service that has been running for a while, then clears the
// heap of what earlier turns left.
func (b *bench) warmUp(ctx context.Context, s session, callers int) {
	w := startWorkload(ctx, s, callers, warmUpBase+time.Duration(callers)*warmUpPerCaller)
	w.wait()
	runtime.GC()
}

// measure is for sessions that cannot be stuck for longer than a call of theirs takes.
func (b *bench) measure(ctx context.Context, s session, callers int) samples {
	w := startWorkload(ctx, s, callers, b.cfg.each)
	defer w.wait()
	return w.collect(ctx, b.cfg.each)
}

// libraries are the wanted ones, in turn.
func (b *bench) libraries() []library {
	var wanted []library
	for _, lib := range libraries() {
		if b.cfg.wants(lib.name) && (!b.cfg.waiting || lib.waits != "") {
			wanted = append(wanted, lib)
		}
	}
	return wanted
}

// tableRow is a series and what it is called in its table.
type tableRow struct {
	name  string
	place place
}

func healthyRows(libs []library, callers int) []tableRow {
	var rows []tableRow
	for _, lib := range libs {
		rows = append(rows, tableRow{lib.name, place{lib.name, callers, 0}})
	}
	return rows
}

// printTable prints the rows whose series were measured, and then one cause for each that failed.
func (b *bench) printTable(all results, rows []tableRow) {
	t := table{header: append([]string{"library"}, seriesHeader...)}
	var causes causes
	for _, row := range rows {
		if s, ok := all[row.place]; ok {
			t.add(append([]string{row.name}, s.cells()...)...)
			causes.add(row.name, s.failure)
		}
	}
	t.render(b.out)
	causes.print(b.out)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sleep ends early with ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
