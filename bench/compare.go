package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

const compareUsage = `usage: bench compare before.json after.json
The files are results of bench -json. Shown are the figures of both, their ratio, and what differs in the set-up.
`

// compare is the whole of bench compare: it prints two results side by side and returns the exit status.
func (c *command) compare(args []string) int {
	if slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "-help" || a == "--help" }) {
		fmt.Fprint(c.stdout, compareUsage)
		return exitMeasured
	}
	if len(args) != 2 {
		c.complain(fmt.Errorf("compare takes two files, got %d; bench compare before.json after.json, each a result of bench -json",
			len(args)))
		return exitUsage
	}
	var both [2]*result
	for i, path := range args {
		r, err := readResult(path)
		if err != nil {
			c.complain(fmt.Errorf("compare: %w", err))
			return exitNothing
		}
		both[i] = r
	}
	if err := writeComparison(c.stdout, args[0], args[1], both[0], both[1]); err != nil {
		c.complain(err)
		return exitNothing
	}
	return exitMeasured
}

// readResult reads a document of -json. Its errors name the file and say what to do.
func readResult(path string) (*result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a result of bench -json", err)
	}
	r, err := parseResult(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func parseResult(text []byte) (*result, error) {
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return nil, errors.New("it is UTF-16, as PowerShell's > writes it; make it with: bench -json | Out-File -Encoding utf8 result.json")
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var head struct {
		Tool   string `json:"tool"`
		Format int    `json:"format"`
		Sweep  *sweep `json:"sweep"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is no JSON document (%w); make one with bench -json", err)
	}
	switch {
	case head.Tool != "redlock-bench":
		return nil, errors.New("it is no result of this tool; make one with bench -json")
	case head.Format != 1 && head.Format != 2:
		return nil, fmt.Errorf("it has format %d, and 1 and 2 are known here; compare with the version that wrote it", head.Format)
	}
	if head.Sweep != nil {
		return nil, errors.New("it is of bench -sweep, and single results are compared; take one out of its sweep.runs")
	}
	r := new(result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("it is not as bench -json writes it: %w", err)
	}
	if r.Format == 1 {
		r.Inputs.Loop = closedLoop // there was no other
	}
	if len(r.Results) != int(operations) {
		return nil, fmt.Errorf("it has figures of %d operations where bench -json writes %d; it was cut or edited", len(r.Results), operations)
	}
	for o := range operations {
		if r.Results[o].Operation != o.String() {
			return nil, fmt.Errorf("it has %q where bench -json writes %q; it was edited", r.Results[o].Operation, o)
		}
	}
	return r, nil
}

// difference is something about the set-up that is not the same in both results.
type difference struct{ Name, Before, After string }

// differences finds what else than the code may have changed the figures.
func differences(before, after *result) []difference {
	var found []difference
	add := func(name, a, b string) {
		if a != b {
			found = append(found, difference{name, a, b})
		}
	}
	for _, part := range [][2][]fact{
		{facts(before.Inputs), facts(after.Inputs)},
		{facts(before.Environment), facts(after.Environment)},
	} {
		for i, was := range part[0] {
			add(was.Name, was.Value, part[1][i].Value)
		}
	}
	add("number of nodes", grouped(int64(len(before.Nodes))), grouped(int64(len(after.Nodes))))
	add("nodes that answered", grouped(int64(before.answering())), grouped(int64(after.answering())))
	add("quorum", grouped(int64(before.Quorum)), grouped(int64(after.Quorum)))
	if before.Inputs.Nodes == "given" && after.Inputs.Nodes == "given" { // others have new ports each time
		add("addresses", addresses(before), addresses(after))
	}
	add("servers", versions(before), versions(after))
	add("faults", faultTexts(before), faultTexts(after))
	add("interrupted", partialText(before), partialText(after))
	add("format", grouped(int64(before.Format)), grouped(int64(after.Format)))
	return found
}

func addresses(r *result) string {
	var all []string
	for _, n := range r.Nodes {
		all = append(all, n.Node)
	}
	slices.Sort(all) // the order of the nodes has no part in a quorum
	return strings.Join(all, ", ")
}

func versions(r *result) string {
	var all []string
	for _, n := range r.Nodes {
		all = append(all, n.Version)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// faultTexts leaves the nodes' addresses out: those of spawned nodes are new each time.
func faultTexts(r *result) string {
	var all []string
	for _, f := range r.Faults {
		text := f.Fault
		if f.Error != "" {
			text += " (could not be done)"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func partialText(r *result) string {
	if r.Partial {
		return "yes, after " + milliText(r.MeasuredMs)
	}
	return "no"
}
