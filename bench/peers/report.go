package main

import (
	"fmt"
	"math"
)

// A column is one quantity of a section, and how its values of all rounds become one cell.
type column struct {
	name string
	cell func(values []float64) string
}

// shown makes a column of median and spread.
func shown(name string, format func(float64) string) column {
	return column{name, func(values []float64) string { return spreadOf(values).format(format) }}
}

// summed makes a column for what is to be counted over all rounds, such as failures.
func summed(name string) column {
	return column{name, func(values []float64) string { return formatWhole(sum(values)) }}
}

func formatWhole(n float64) string { return fmt.Sprintf("%.0f", n) }

func formatPercent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// Names of columns that the comparisons look at.
const (
	columnFailed     = "failed"
	columnViolations = "violations"
)

// A report gathers the rows of one section over the rounds. A row is a library, alone or in one of its ways.
type report struct {
	first   string // heads the column of the rows' names
	columns []column
	rows    []*reportRow // in the order in which they first came
}

type reportRow struct {
	name    string
	values  [][]float64 // per column, one entry per round
	failure error       // one cause of the failed
}

func newReport(first string, columns ...column) *report {
	return &report{first: first, columns: columns}
}

// add takes one round's values of a row, one per column.
func (r *report) add(name string, failure error, values ...float64) {
	if len(values) != len(r.columns) {
		panic(fmt.Sprintf("%d values for %d columns", len(values), len(r.columns)))
	}
	row := r.row(name)
	if row == nil {
		row = &reportRow{name: name, values: make([][]float64, len(r.columns))}
		r.rows = append(r.rows, row)
	}
	for i, v := range values {
		row.values[i] = append(row.values[i], v)
	}
	if failure != nil {
		row.failure = failure
	}
}

func (r *report) row(name string) *reportRow {
	for _, row := range r.rows {
		if row.name == name {
			return row
		}
	}
	return nil
}

// get returns a row's values of one column, none where the row was not measured.
func (r *report) get(row, column string) []float64 {
	found := r.row(row)
	for i, c := range r.columns {
		if c.name == column && found != nil {
			return found.values[i]
		}
	}
	return nil
}

// render prints the table, and then one cause for each row that had failures.
func (r *report) render(out output) {
	t := table{header: []string{r.first}}
	for _, c := range r.columns {
		t.header = append(t.header, c.name)
	}
	for _, row := range r.rows {
		cells := []string{row.name}
		for i, c := range r.columns {
			cells = append(cells, c.cell(row.values[i]))
		}
		t.add(cells...)
	}
	t.render(out)
	var causes causes
	for _, row := range r.rows {
		causes.add(row.name, row.failure)
	}
	causes.print(out)
}

// oursOverTheirs compares a column with that of redsync, in the better of its modes of each round (by pick) and
// in its default, and with that of rueidislock.
func (r *report) oursOverTheirs(label, column string, pick func(a, b float64) float64) []comparison {
	return r.compare(column, pick, func(theirs []float64, rival string) comparison {
		return comparison{label: label, values: ratios(r.get(nameRedlock, column), theirs), against: rival}
	})
}

// theirsOverOurs is the same the other way round, for what reads better as a number above one.
func (r *report) theirsOverOurs(label, column string) []comparison {
	return r.compare(column, math.Min, func(theirs []float64, rival string) comparison {
		return comparison{label: label + ", " + rival, values: ratios(theirs, r.get(nameRedlock, column)), against: "redlock's"}
	})
}

func (r *report) compare(column string, pick func(a, b float64) float64, pair func(theirs []float64, rival string) comparison) []comparison {
	byDefault, failFast := r.get(nameRedsync, column), r.get(nameRedsyncFailFast, column)
	var all []comparison
	add := func(theirs []float64, rival string) {
		if len(theirs) > 0 && len(r.get(nameRedlock, column)) > 0 {
			c := pair(theirs, rival)
			c.clean = sum(r.get(nameRedlock, columnFailed))+sum(r.get(nameRedlock, columnViolations)) == 0
			all = append(all, c)
		}
	}
	add(best(byDefault, failFast, pick), "redsync (best mode)")
	add(byDefault, "redsync (default)")
	add(r.get(nameRueidislock, column), "rueidislock on ONE node")
	return all
}
