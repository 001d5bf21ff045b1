package main

import (
	"strings"
	"testing"
)

func TestTableAlignsByCharacters(t *testing.T) {
	tab := table{header: []string{"library", "p50"}}
	tab.add("a", "153 µs")
	tab.add("bbbbbbbbb", "1.24 ms (1–2)")
	var out strings.Builder
	tab.render(&out)
	want := `| library   |           p50 |
| --------- | ------------: |
| a         |        153 µs |
| bbbbbbbbb | 1.24 ms (1–2) |
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestSecondsAreShownInTheUnitThatSuits(t *testing.T) {
	for seconds, want := range map[float64]string{
		0.0000004: "0 µs",
		0.000153:  "153 µs",
		0.0009994: "999 µs",
		0.0009996: "1.00 ms",
		0.00124:   "1.24 ms",
		0.0124:    "12.4 ms",
		0.09999:   "100 ms",
		0.124:     "124 ms",
		0.9996:    "1.00 s",
		5.012:     "5.01 s",
	} {
		if got := formatSeconds(seconds); got != want {
			t.Errorf("formatSeconds(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestSpreadIsShownWithItsRange(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "none"},
		{[]float64{0.25}, "0.2"},
		{[]float64{3, 1, 1000}, "3.0 (1.0–1000)"},
	} {
		if got := spreadOf(c.values).format(formatRate); got != c.want {
			t.Errorf("%v: got %q, want %q", c.values, got, c.want)
		}
	}
}
