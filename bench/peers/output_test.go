package main

import (
	"errors"
	"strings"
	"testing"
)

func TestCausesDoNotBecomeRowsOfTheTableAbove(t *testing.T) {
	var causes causes
	causes.add("clean", nil)
	causes.add("theirs", errors.New("key `a`\n| is *held*"))
	for markdown, want := range map[bool]string{
		false: "theirs failed with, for one: key `a`\n| is *held*\n",
		true:  "\n- theirs failed with, for one: `key 'a' | is *held*`\n",
	} {
		var out strings.Builder
		causes.print(output{&out, markdown})
		if out.String() != want {
			t.Errorf("markdown %v: got %q, want %q", markdown, out.String(), want)
		}
	}
}

func TestRatiosAreATableInMarkdown(t *testing.T) {
	var out strings.Builder
	printComparisons(output{&out, true}, []comparison{
		{"64 callers", []float64{12, 12.3, 13}, "redsync", atLeast(9), true},
		{"p99", []float64{1.9}, "healthy", atMost(2), false},
	})
	want := `
Ratios, each between two measurements of one round: median (min–max)

|            |              ratio | against |                              goal |
| ---------- | -----------------: | ------: | --------------------------------: |
| 64 callers | 12.3 (12.0–13.0) × | redsync |               goal ≥ 9 x: reached |
| p99        |             1.90 × | healthy | goal ≤ 2 x: MISSED, with failures |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
