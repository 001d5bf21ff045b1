package main

import (
	"math"
	"slices"
	"time"
)

// quantile returns the smallest value that at least the share q of the values does not exceed, in seconds. The
// values are sorted in place. No values: NaN.
func quantile(values []time.Duration, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	rank := int(math.Ceil(q * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1].Seconds()
}

// A spread is one quantity over the rounds. Its zero value stands for no measurement.
type spread struct {
	median, low, high float64
	rounds            int
}

// spreadOf leaves out NaN, the value of a round in which nothing was measured.
func spreadOf(values []float64) spread {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(known) == 0 {
		return spread{}
	}
	slices.Sort(known)
	n := len(known)
	median := known[n/2]
	if n%2 == 0 {
		median = (known[n/2-1] + known[n/2]) / 2
	}
	return spread{median: median, low: known[0], high: known[n-1], rounds: n}
}

// ratios divides round by round. A round in which either side measured nothing gives NaN.
func ratios(over, under []float64) []float64 {
	var all []float64
	for i := range min(len(over), len(under)) {
		all = append(all, ratio(over[i], under[i]))
	}
	return all
}

func ratio(over, under float64) float64 {
	if under == 0 {
		return math.NaN() // infinitely many times nothing says nothing
	}
	return over / under
}

// best picks the better of two rivals' values round by round, by pick (math.Max for rates, math.Min for times);
// where one of them has none, the other's.
func best(a, b []float64, pick func(a, b float64) float64) []float64 {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	var all []float64
	for i := range min(len(a), len(b)) {
		switch {
		case math.IsNaN(a[i]):
			all = append(all, b[i])
		case math.IsNaN(b[i]):
			all = append(all, a[i])
		default:
			all = append(all, pick(a[i], b[i]))
		}
	}
	return all
}
