package main

import (
	"fmt"
	"math"
	"slices"
)

// A goal bounds the median of a ratio. The zero value is no goal.
type goal struct {
	bound  float64
	atMost bool
}

func atLeast(bound float64) goal { return goal{bound: bound} }
func atMost(bound float64) goal  { return goal{bound: bound, atMost: true} }

func (g goal) reached(s spread) bool {
	switch {
	case s.rounds == 0:
		return false
	case g.atMost:
		return s.median <= g.bound
	}
	return s.median >= g.bound
}

// verdict is what stands beside the ratio. A goal reached at the price of failures is missed.
func (g goal) verdict(s spread, clean bool) string {
	if g == (goal{}) {
		return "no goal"
	}
	sign := "≥"
	if g.atMost {
		sign = "≤"
	}
	word := "MISSED"
	if g.reached(s) && clean {
		word = "reached"
	}
	return fmt.Sprintf("goal %s %g x: %s", sign, g.bound, word)
}

// A comparison is one line of the last section.
type comparison struct {
	label   string
	values  []float64 // per round
	against string
	goal    goal
	clean   bool // our side had no failures
}

func (c comparison) String() string {
	s := spreadOf(c.values)
	value := s.format(formatRatio)
	line := fmt.Sprintf("%s: %s x %s (%s)", c.label, value, c.against, c.goal.verdict(s, c.clean))
	if !c.clean {
		line += ", with failures"
	}
	return line
}

var (
	rateGoalsRedsync   = map[int]goal{64: atLeast(9), 256: atLeast(14)}
	rateGoalsRedislock = map[int]goal{64: atLeast(1.2), 256: atLeast(2)}
	latencyGoal        = atMost(0.7) // one caller
	outageGoal         = atMost(2)
)

func printRatios(out output, healthy, outage results) {
	printComparisons(out, slices.Concat(rateComparisons(healthy), latencyComparisons(healthy), outageComparisons(outage)))
}

func printComparisons(out output, all []comparison) {
	fmt.Fprint(out, "\nRatios, each between two measurements of one round: median (min–max)\n\n")
	if out.markdown {
		comparisonTable(all).render(out)
		return
	}
	for _, c := range all {
		fmt.Fprintln(out, c)
	}
}

// comparisonTable has the parts of the lines in cells.
func comparisonTable(all []comparison) *table {
	t := table{header: []string{"", "ratio", "against", "goal"}}
	for _, c := range all {
		s := spreadOf(c.values)
		verdict := c.goal.verdict(s, c.clean)
		if !c.clean {
			verdict += ", with failures"
		}
		t.add(c.label, s.format(formatRatio)+" ×", c.against, verdict)
	}
	return &t
}

// rateComparisons compare the throughput. "Best mode" takes the faster of the two modes in every round.
func rateComparisons(r results) []comparison {
	var all []comparison
	for _, callers := range r.callers(nameRedlock) {
		ours := r.get(nameRedlock, callers, 0)
		byDefault, failFast := r.get(nameRedsync, callers, 0), r.get(nameRedsyncFailFast, callers, 0)
		one, rueidis := r.get(nameRedislock, callers, 0), r.get(nameRueidislock, callers, 0)
		add := func(theirs []float64, against string, g goal) {
			if len(theirs) > 0 {
				label := count(callers, "caller") + ", cycles/s"
				all = append(all, comparison{label, ratios(ours.rate, theirs), against, g, ours.clean()})
			}
		}
		add(best(byDefault.rate, failFast.rate, math.Max), "redsync (best mode)", rateGoalsRedsync[callers])
		add(byDefault.rate, "redsync (default)", rateGoalsRedsync[callers])
		add(one.rate, "redislock on ONE node", rateGoalsRedislock[callers])
		add(rueidis.rate, "rueidislock on ONE node", goal{})
	}
	return all
}

func latencyComparisons(r results) []comparison {
	const callers = 1
	ours := r.get(nameRedlock, callers, 0)
	byDefault, failFast := r.get(nameRedsync, callers, 0), r.get(nameRedsyncFailFast, callers, 0)
	if len(ours.rate) == 0 {
		return nil
	}
	var all []comparison
	add := func(theirs []float64, against string) {
		if len(theirs) > 0 {
			all = append(all, comparison{"1 caller, acquire p50", ratios(ours.acquireP50, theirs), against, latencyGoal, ours.clean()})
		}
	}
	add(best(byDefault.acquireP50, failFast.acquireP50, math.Min), "redsync's (best mode)")
	add(byDefault.acquireP50, "redsync's (default)")
	return all
}

func outageComparisons(r results) []comparison {
	var all []comparison
	for _, callers := range r.callers(nameRedlock) {
		healthy := r.get(nameRedlock, callers, 0)
		for stopped := 1; ; stopped++ {
			s, ok := r[place{nameRedlock, callers, stopped}]
			if !ok {
				break
			}
			label := fmt.Sprintf("%s, %s stopped", count(callers, "caller"), count(stopped, "node"))
			all = append(all,
				comparison{label + ", acquire p99", ratios(s.acquireP99, healthy.acquireP99), "healthy", outageGoal, s.clean()},
				comparison{label + ", release p99", ratios(s.releaseP99, healthy.releaseP99), "healthy", outageGoal, s.clean()})
		}
	}
	return all
}

// get returns an empty series where nothing was measured.
func (r results) get(library string, callers, stopped int) series {
	if s, ok := r[place{library, callers, stopped}]; ok {
		return *s
	}
	return series{}
}

// callers are the numbers of callers at which a library was measured, in order.
func (r results) callers(library string) []int {
	var all []int
	for p := range r {
		if p.library == library && !slices.Contains(all, p.callers) {
			all = append(all, p.callers)
		}
	}
	slices.Sort(all)
	return all
}
