package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	percentileTicks = 5   // lines for each halving of the distance to 100 %, as the usual plotters expect
	nanosPerMilli   = 1e6 // the plotters label their axis with milliseconds
)

// writePercentiles writes one percentile file per operation: prefix-acquire.hgrm and so on. An operation
// without a success gets an empty one, so that no file of an earlier run is taken for this one's.
func writePercentiles(prefix string, total *recorder) error {
	for o := range operations {
		path := prefix + "-" + strings.ReplaceAll(o.String(), " ", "-") + ".hgrm"
		err := writeFile(path, func(w io.Writer) error { return printPercentiles(w, o, total.successes[o]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// printPercentiles prints the text format of HdrHistogram in milliseconds. The library's own printer shortens
// the percentiles to six digits, which makes the last ones of a long run all the same.
func printPercentiles(w io.Writer, o operation, h *hdrhistogram.Histogram) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	mean, deviation, longest := 0.0, 0.0, 0.0
	if h.TotalCount() > 0 { // an empty histogram has a maximum above 0
		for _, step := range h.CumulativeDistributionWithTicks(percentileTicks) {
			b.WriteString(percentileLine(step))
		}
		mean, deviation, longest = h.Mean()/nanosPerMilli, h.StdDev()/nanosPerMilli, float64(h.Max())/nanosPerMilli
	}
	fmt.Fprintf(&b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean, deviation)
	fmt.Fprintf(&b, "#[Max     = %12.3f, Total count    = %12d]\n", longest, h.TotalCount())
	fmt.Fprintf(&b, "#[Unit    = milliseconds, Operation = %s]\n", o)
	_, err := io.WriteString(w, b.String())
	return err
}

func percentileLine(step hdrhistogram.Bracket) string {
	share := step.Quantile / 100
	inverse := "inf" // as other writers of the format have it, and their readers skip it
	if share < 1 {
		inverse = fmt.Sprintf("%.2f", 1/(1-share))
	}
	return fmt.Sprintf("%12.3f %.12f %10d %14s\n", float64(step.ValueAt)/nanosPerMilli, share, step.Count, inverse)
}
