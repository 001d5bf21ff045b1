package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// What a contender does: work that is short against any wait, and a pause in which the others can have the key.
const (
	contendedWork  = time.Millisecond
	contendedPause = 5 * time.Millisecond
)

// runContention measures how much of the time a key that many want is put to use, and how evenly it is shared.
func (b *waitingBench) runContention(ctx context.Context) error {
	const grants, longest = "grants", "longest wait"
	r := newReport("library", shown(grants, formatWhole), shown(longest, formatSeconds), shown("least served", formatWhole),
		shown("most served", formatWhole), shown("least/most", formatRatio), summed(columnViolations), summed(columnFailed))
	err := b.turns(ctx, sectionContention, func(lib library) error {
		return b.withLockers(ctx, lib, b.plan.lockers, 1, func(all lockers) error {
			var contenders []contender
			for _, w := range all {
				contenders = append(contenders, waits(w, contendedWork, contendedPause))
			}
			c := contest{key: newKey(), length: b.plan.contest}
			o := c.run(ctx, contenders)
			b.mustBeZero(lib, "contention", "violations", o.violations)
			least, most := o.extremes()
			r.add(lib.name, o.failure(), float64(o.grants()), o.longest().Seconds(), float64(least), float64(most),
				ratio(float64(least), float64(most)), float64(o.violations), float64(o.failed()))
			return nil
		})
	})
	b.print(r, fmt.Sprintf("Contention: %s on one key for %v, %v of work, then a pause of %v",
		count(b.plan.lockers, "locker"), b.plan.contest, contendedWork, contendedPause))
	b.comparisons = append(b.comparisons, r.oursOverTheirs("contention, grants", grants, math.Max)...)
	b.comparisons = append(b.comparisons, r.oursOverTheirs("contention, longest wait", longest, math.Min)...)
	return err
}
