package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	greedyWork = 200 * time.Microsecond
	modest     = 3 // lockers beside the greedy one
)

// runGreedy measures what is left for others where one locker wants the key again as soon as it has released it.
func (b *waitingBench) runGreedy(ctx context.Context) error {
	columns := []column{shown("greedy", formatWhole)}
	for i := range modest {
		columns = append(columns, shown(fmt.Sprintf("modest %d", i+1), formatWhole))
	}
	columns = append(columns, shown("longest wait of the modest", formatSeconds), summed(columnViolations), summed(columnFailed))
	r := newReport("library, grants of each", columns...)
	err := b.turns(ctx, sectionGreedy, func(lib library) error {
		err := b.greedyTurn(ctx, lib, lib.name, false, r)
		if lib.name == nameRedlock {
			err = errors.Join(err, b.greedyTurn(ctx, lib, lib.name+", TryAcquire in a loop", true, r))
		}
		return err
	})
	b.print(r, fmt.Sprintf("Tight loop: one greedy locker, %v of work and no pause, and %d modest ones, %v of work and %v of pause, for %v",
		greedyWork, modest, contendedWork, contendedPause, b.plan.contest))
	return err
}

// greedyTurn runs one contest. With attempts the greedy locker never waits, and so never stands in a queue.
func (b *waitingBench) greedyTurn(ctx context.Context, lib library, row string, attempts bool, r *report) error {
	return b.withLockers(ctx, lib, 1+modest, 1, func(all lockers) error {
		greedy := waits(all[0], greedyWork, 0)
		if attempts {
			greedy.acquire, greedy.attempts = all[0].acquire, true
		}
		contenders := []contender{greedy}
		for _, w := range all[1:] {
			contenders = append(contenders, waits(w, contendedWork, contendedPause))
		}
		c := contest{key: newKey(), length: b.plan.contest}
		o := c.run(ctx, contenders)
		b.mustBeZero(lib, "greedy", "violations", o.violations)
		var values []float64
		for _, s := range o.served {
			values = append(values, float64(s.grants))
		}
		others := outcome{served: o.served[1:]}
		values = append(values, others.longest().Seconds(), float64(o.violations), float64(o.failed()))
		r.add(row, o.failure(), values...)
		return nil
	})
}
