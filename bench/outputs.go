package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// outputs are the files that a run leaves behind, beside what it prints.
type outputs struct {
	report string // the page for people; "" for none
	hgrm   string // what the names of the percentile files begin with; "" for none
}

func (o *outputs) register(flags *flag.FlagSet) {
	flags.Func("report", "", fileName(&o.report))
	flags.Func("hgrm", "", fileName(&o.hgrm))
}

func fileName(target *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("accepted: the name of a file")
		}
		*target = text
		return nil
	}
}

// writeSweep leaves the page of a sweep behind.
func (o outputs) writeSweep(swept *sweepResult) error {
	if o.report == "" {
		return nil
	}
	if err := writeFile(o.report, func(w io.Writer) error { return writeSweepReport(w, swept) }); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return nil
}

// write leaves the files behind, each whatever happened to the others; it returns why some are missing.
// The figures are printed before, so that a full disk does not cost a measurement.
func (o outputs) write(r *result, total *recorder) []error {
	var missing []error
	if o.report != "" {
		if err := writeFile(o.report, func(w io.Writer) error { return writeReport(w, r) }); err != nil {
			missing = append(missing, fmt.Errorf("-report: %w", err))
		}
	}
	if o.hgrm != "" {
		if err := writePercentiles(o.hgrm, total); err != nil {
			missing = append(missing, fmt.Errorf("-hgrm: %w", err))
		}
	}
	return missing
}
