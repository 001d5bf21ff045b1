package main

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestReportShowsMediansAndSumsOfTheRounds(t *testing.T) {
	r := newReport("library", shown("p50", formatSeconds), shown("grants", formatWhole), summed(columnFailed))
	r.add("ours", nil, 0.001, 500, 0)
	r.add("theirs", errors.New("too late"), 0.2, 100, 1)
	r.add("ours", nil, 0.003, 700, 0)
	r.add("theirs", nil, math.NaN(), 300, 2)
	var out strings.Builder
	r.render(output{Writer: &out})
	want := `| library |                       p50 |        grants | failed |
| ------- | ------------------------: | ------------: | -----: |
| ours    | 2.00 ms (1.00 ms–3.00 ms) | 600 (500–700) |      0 |
| theirs  |                    200 ms | 200 (100–300) |      3 |
theirs failed with, for one: too late
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestReportComparesWithinARoundAndWithTheBetterMode(t *testing.T) {
	r := newReport("library", shown("grants", formatWhole), shown("wait", formatSeconds), summed(columnFailed))
	for _, round := range []struct{ ours, byDefault, failFast [2]float64 }{
		{[2]float64{100, 1}, [2]float64{50, 4}, [2]float64{25, 2}},
		{[2]float64{200, 1}, [2]float64{50, 4}, [2]float64{100, 8}},
	} {
		r.add(nameRedlock, nil, round.ours[0], round.ours[1], 0)
		r.add(nameRedsync, nil, round.byDefault[0], round.byDefault[1], 7)
		r.add(nameRedsyncFailFast, nil, round.failFast[0], round.failFast[1], 0)
	}
	lines(t, r.oursOverTheirs("grants", "grants", math.Max),
		"grants: 2.00 (2.00–2.00) x redsync (best mode) (no goal)",
		"grants: 3.00 (2.00–4.00) x redsync (default) (no goal)")
	lines(t, r.theirsOverOurs("wait", "wait"),
		"wait, redsync (best mode): 3.00 (2.00–4.00) x redlock's (no goal)",
		"wait, redsync (default): 4.00 (4.00–4.00) x redlock's (no goal)")
}

func TestReportComparesOnlyWhatWasMeasured(t *testing.T) {
	r := newReport("library", shown("grants", formatWhole), summed(columnFailed))
	lines(t, r.oursOverTheirs("grants", "grants", math.Max))
	r.add(nameRedlock, nil, 1, 1)
	lines(t, r.oursOverTheirs("grants", "grants", math.Max))
	r.add(nameRedsyncFailFast, nil, 1, 0)
	lines(t, r.oursOverTheirs("grants", "grants", math.Max),
		"grants: 1.00 x redsync (best mode) (no goal), with failures")
}

func lines(t *testing.T, got []comparison, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i].String() != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}
