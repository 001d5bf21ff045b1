package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

type crowdPlan struct {
	callers int           // of one locker
	each    int           // grants of one caller: equal shares, or one who never lets go would be the fastest
	box     time.Duration // where that takes longer, the table shows how far it got
}

// runCrowd measures what the callers of one locker cost each other and the nodes when all want the same key.
func (b *waitingBench) runCrowd(ctx context.Context) error {
	const perGrant, commands = "time/grant", "commands/grant"
	r := newReport("library", shown("grants", formatWhole), shown("elapsed", formatSeconds), shown(perGrant, formatSeconds),
		shown(commands, formatRate), shown("longest wait", formatSeconds), summed(columnViolations), summed(columnFailed))
	p := b.plan.crowd
	err := b.turns(ctx, sectionCrowd, func(lib library) error {
		return b.withLockers(ctx, lib, 1, p.callers, func(all lockers) error {
			o, executed, err := b.crowd(ctx, all[0])
			b.mustBeZero(lib, "crowd", "violations", o.violations)
			n := float64(o.grants())
			r.add(lib.name, o.failure(), n, o.took.Seconds(), ratio(o.took.Seconds(), n), ratio(float64(executed), n),
				o.longest().Seconds(), float64(o.violations), float64(o.failed()))
			return err
		})
	})
	b.print(r, fmt.Sprintf("Crowd: %s of one locker on one key, %v of work, no pause, %s each or %v; commands executed on all nodes, those in scripts too",
		count(p.callers, "caller"), contendedWork, count(p.each, "grant"), p.box))
	b.comparisons = append(b.comparisons, r.oursOverTheirs("crowd, time per grant", perGrant, math.Min)...)
	b.comparisons = append(b.comparisons, r.oursOverTheirs("crowd, commands per grant", commands, math.Min)...)
	return err
}

// crowd also returns the number of commands that the nodes executed up to the end.
func (b *waitingBench) crowd(ctx context.Context, w waiter) (outcome, int, error) {
	p := b.plan.crowd
	b.warmUp(ctx, w, p.callers)
	meter, err := b.probes.startCommands(ctx)
	if err != nil {
		return outcome{}, 0, err
	}
	var executed int
	c := contest{key: newKey(), length: p.box, quota: p.each, atEnd: func() { executed, err = meter.executed(ctx) }}
	var contenders []contender
	for range p.callers {
		contenders = append(contenders, waits(w, contendedWork, 0))
	}
	o := c.run(ctx, contenders)
	return o, executed, err
}
