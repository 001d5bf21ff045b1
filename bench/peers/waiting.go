package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// waitingEach is the default of -d with -waiting. A wait can take seconds, and the longest of several is of interest.
const waitingEach = 6 * time.Second

// Names of sections as they stand in -sections.
const (
	sectionHandOver   = "handover"
	sectionContention = "contention"
	sectionGreedy     = "greedy"
	sectionCrowd      = "crowd"
	sectionParked     = "parked"
)

// A section of -waiting is one question, with a table of its own.
type section struct {
	name string
	run  func(b *waitingBench, ctx context.Context) error
}

func sections() []section {
	return []section{
		{sectionHandOver, (*waitingBench).runHandOver},
		{sectionContention, (*waitingBench).runContention},
		{sectionGreedy, (*waitingBench).runGreedy},
		{sectionCrowd, (*waitingBench).runCrowd},
		{sectionParked, (*waitingBench).runParked},
	}
}

func sectionNames() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// A plan says how much of everything a run with -waiting does. Tests make it small.
type plan struct {
	handOver handOverPlan
	contest  time.Duration // contention and greedy
	lockers  int           // contention
	crowd    crowdPlan
	parked   parkedPlan
}

func planOf(c config) plan {
	return plan{
		handOver: handOverPlan{
			pairs: 4, ours: 100, theirs: 40, box: 20 * time.Second,
			waited: 300 * time.Millisecond, spread: 150 * time.Millisecond,
		},
		contest: c.each,
		lockers: c.lockers,
		crowd:   crowdPlan{callers: 100, each: 5, box: 10 * time.Second},
		parked:  parkedPlan{waiters: 100, settle: 2 * time.Second, measure: 10 * time.Second},
	}
}

// waitingBench is a bench with what the sections of -waiting need besides.
type waitingBench struct {
	*bench
	plan        plan
	probes      probes
	comparisons []comparison
	broken      []error // promises of ours that did not hold
}

// runWaiting runs the wanted sections. It fails, after everything has been printed, where this library broke a
// promise: a figure that was had at that price is none.
func (b *bench) runWaiting(ctx context.Context, p plan) (err error) {
	probes, err := openProbes(ctx, b.urls)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, probes.close()) }()
	w := &waitingBench{bench: b, plan: p, probes: probes}
	for _, s := range sections() {
		if !b.cfg.wantsSection(s.name) || len(b.in(s.name)) == 0 {
			continue
		}
		if err := s.run(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if len(w.comparisons) > 0 {
		printComparisons(b.out, w.comparisons)
	}
	return errors.Join(w.broken...)
}

// in returns the wanted libraries that take part in a section.
func (b *bench) in(section string) []library {
	return slices.DeleteFunc(b.libraries(), func(lib library) bool { return !lib.takesPart(section) })
}

// turns lets the libraries of a section take turns, for all rounds.
func (b *waitingBench) turns(ctx context.Context, section string, turn func(lib library) error) error {
	for range b.cfg.rounds {
		for _, lib := range b.in(section) {
			if err := errors.Join(turn(lib), ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", lib.name, err)
			}
		}
	}
	return nil
}

// mustBeZero notes a broken promise of this library. What others promise is theirs to judge: the tables show it.
func (b *waitingBench) mustBeZero(lib library, section, what string, n int) {
	if lib.name == nameRedlock && n > 0 {
		b.broken = append(b.broken, fmt.Errorf("%s: %s: %d %s, must be none", section, lib.name, n, what))
	}
}

// print prints a section: its heading, its table, and one cause for each row that had failures.
func (b *waitingBench) print(r *report, heading string) {
	fmt.Fprintf(b.out, "\n%s; %s: median (min–max)\n\n", heading, count(b.cfg.rounds, "round"))
	r.render(b.out)
}
