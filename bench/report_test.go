package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func reported(t *testing.T, r *result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, writeReport(&b, r))
	return b.String()
}

// words is what a reader sees of a page: no tags, single spaces.
func words(page string) string {
	page = regexp.MustCompile(`(?s)<style>.*</style>`).ReplaceAllString(page, "")
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))), " ")
}

// eventful is a result with a time line, an outage in it and faults of every kind.
func eventful() *result {
	r := sample()
	r.Started = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	for n := range 60 {
		m := moment{FromMs: float64(n) * 100, ToMs: float64(n+1) * 100, Acquired: 400, P50: 450 + float64(n%7)*9, P99: 1200, Max: 5000}
		if n >= 30 && n < 35 {
			m = moment{FromMs: m.FromMs, ToMs: m.ToMs, Failed: int64(n)}
		}
		r.Timeline = append(r.Timeline, m)
	}
	r.Faults = []faultSpan{
		{Fault: "stop:2@3s+500ms", Node: "c:1", FromMs: 3000, ToMs: 3500.2},
		{Fault: "cut:1@4s", Node: "b:1", FromMs: 4000, ToMs: 4000},
		{Fault: "kill:0@5s", Node: "a:1", FromMs: 5000},
		{Fault: "stop:9@5s+1s", Node: "x:1", Error: "operation not permitted"},
	}
	return r
}

// drawings checks that a page's drawings are well-formed, have a text alternative each and no number that is none.
func drawings(t *testing.T, page string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	ids := map[string]bool{}
	for _, svg := range found {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := decoder.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
		labelled := regexp.MustCompile(`aria-labelledby="(\S+) (\S+)"`).FindStringSubmatch(svg)
		require.Len(t, labelled, 3)
		require.Regexp(t, `<title id="`+labelled[1]+`">[^<]+</title>`, svg)
		require.Regexp(t, `<desc id="`+labelled[2]+`">[^<]+</desc>`, svg)
		require.NotRegexp(t, `NaN|Inf|%!`, svg)
		require.NotContains(t, svg, "e+")
		require.False(t, ids[labelled[1]], "an id is there once")
		ids[labelled[1]] = true
	}
	return found
}

func TestReportTellsTheFiguresInSentences(t *testing.T) {
	page := reported(t, eventful())
	text := words(page)
	for _, part := range []string{
		"On 5 nodes, 16 callers took 12,345 locks in 3.00 s: 4,115 a second.",
		"Half of the acquires took no longer than 450 µs (p50), 99 of 100 no longer than 1.23 ms (p99).",
		"Failed: 3 of 12,348 (0.02 %) at acquire.", "redlock-bench, 2026-11-29 20:00:00 UTC",
		"The floor is 300 µs: the p50 of the 3rd fastest node's pings.", "150 µs above the floor: 1.50 times as long",
		`acquire, held, for example: redlock: acquire "k": the key is held`, "c:1 left pings unanswered, the last with: dial tcp",
		"F1 stop:2@3s+500ms on c:1, from 3.0 s to 3.5 s", "F2 cut:1@4s on b:1, at 4.0 s", "F3 kill:0@5s on a:1, from 5.0 s to 6.0 s",
		"F4 stop:9@5s+1s on x:1 could not be done: operation not permitted (not in the chart)",
		"closed loop: a stalled caller", "failures: 5 nodes, quorum 3", "ttl 10 s", "warm up 300 ms", "go go1.26",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "Partial")
	require.Len(t, drawings(t, page), 6, "three charts, each for wide and narrow screens")
	require.Equal(t, 6, strings.Count(page, `class="fault-text"`), "three marks in both sizes; the fault that was not done has none")
}

func TestReportAsksForNothingFromElsewhere(t *testing.T) {
	page := reported(t, eventful())
	require.Contains(t, page, `content="default-src 'none'; style-src 'unsafe-inline'"`)
	for _, outside := range []string{"<script", "src=", "href=", "url(", "@import", "http://", "https://", "<link", "<iframe"} {
		require.NotContains(t, page, outside)
	}
}

func TestReportEscapesWhatItWasGiven(t *testing.T) {
	const evil = `</title></desc><script>alert(1)</script>"'><b onclick=x>`
	r := eventful()
	r.Nodes[2].Node, r.Nodes[2].Version, r.Nodes[2].Error = evil, evil, evil
	r.Failures[0].Example, r.Failures[0].Class = evil, evil
	r.Faults[0].Fault, r.Faults[3].Error, r.Notes[0], r.Inputs.Nodes, r.Environment.Go = evil, evil, evil, evil, evil
	page := reported(t, r)
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "<b ")
	require.Contains(t, page, "&lt;script&gt;alert(1)")
	require.NotContains(t, page, "ZgotmplZ", "nothing was taken for unsafe and left out")
	require.Len(t, drawings(t, page), 6)
}

func TestReportOfLessThanEverything(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result)
		want   []string
		charts int
	}{
		"no time line": {func(r *result) { r.Timeline, r.Faults = nil, nil }, []string{"This result has no time line"}, 4},
		"partial":      {func(r *result) { r.Partial = true }, []string{"Partial: interrupted after 3.00 s of 1m30s."}, 6},
		"no floor":     {func(r *result) { r.Floor = nil }, []string{"The floor is unknown"}, 6},
		"no failures":  {func(r *result) { r.Failures = nil }, []string{"No call failed."}, 6},
		"no nodes":     {func(r *result) { r.Nodes, r.Floor = nil, nil }, []string{"On 0 nodes"}, 4},
		"one piece":    {func(r *result) { r.Timeline = r.Timeline[:1] }, []string{"none failed"}, 6},
		"no locks": {func(r *result) {
			r.Floor = nil
			for i := range r.Results {
				r.Results[i] = opResult{Operation: operation(i).String()}
			}
			for i := range r.Timeline {
				r.Timeline[i] = moment{FromMs: r.Timeline[i].FromMs, ToMs: r.Timeline[i].ToMs, Failed: 1}
			}
		}, []string{"No lock could be taken on 5 nodes by 16 callers in 3.00 s.", "No lock was taken: redlock: acquire", "no acquire was granted",
			"none went well", "3 of 3 (100 %) at acquire"}, 6},
		"nothing at all": {func(r *result) {
			*r = result{Results: []opResult{{Operation: "acquire"}, {Operation: "renew"}, {Operation: "release"}, {Operation: "full cycle"}}}
		}, []string{"No lock was taken."}, 2},
		"equal figures": {func(r *result) {
			for i := range r.Timeline {
				r.Timeline[i] = moment{FromMs: r.Timeline[i].FromMs, ToMs: r.Timeline[i].ToMs, Acquired: 1, P50: 1000, P99: 1000, Max: 1000}
			}
		}, []string{"none failed"}, 6},
		"open loop": {func(r *result) {
			r.Inputs.Loop, r.Inputs.Rate = openLoop, 5000
			r.Schedule = &starts{Scheduled: 15000, Late: 70, NotStarted: 8}
		}, []string{"on a schedule of 5,000 starts a second, took 12,345 locks",
			"Of 15,000 scheduled starts, 70 were late by more than 10 ms and 8 were never made.", "That counts from the schedule"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			r := eventful()
			c.change(r)
			page := reported(t, r)
			for _, part := range c.want {
				require.Contains(t, words(page), part)
			}
			require.Len(t, drawings(t, page), c.charts)
		})
	}
}

func TestLongTimeLinesKeepTheirPeaks(t *testing.T) {
	var line []moment
	for n := range 1000 {
		line = append(line, moment{FromMs: float64(n), ToMs: float64(n + 1), Acquired: 2, P50: 10, P99: 20, Max: 30})
	}
	line[777] = moment{FromMs: 777, ToMs: 778, Acquired: 1, Failed: 5, P50: 500, P99: 600, Max: 700}
	line[3] = moment{FromMs: 3, ToMs: 4, Failed: 7}
	joined := coarsened(line, 140)
	require.LessOrEqual(t, len(joined), 140)
	var acquired, failures int64
	var longest, worst float64
	for i, m := range joined {
		acquired, failures = acquired+m.Acquired, failures+m.Failed
		longest, worst = max(longest, m.Max), max(worst, m.P99)
		require.Equal(t, 10.0, m.P50)
		if i > 0 {
			require.Equal(t, joined[i-1].ToMs, m.FromMs)
		}
	}
	require.EqualValues(t, 2*998+1, acquired)
	require.EqualValues(t, 12, failures)
	require.Equal(t, 700.0, longest)
	require.Equal(t, 600.0, worst)
	require.Equal(t, 1000.0, joined[len(joined)-1].ToMs)
	require.Equal(t, line[:140], coarsened(line[:140], 140))
}

func TestCurvesBreakWhereNothingWasGranted(t *testing.T) {
	over := axis{low: 0, high: 40, from: 0, until: 40}
	scale := axis{low: 0, high: 100, from: 100, until: 0}
	line := []moment{{ToMs: 10, Acquired: 1, P50: 1}, {FromMs: 10, ToMs: 20, Acquired: 1, P50: 2}, {FromMs: 20, ToMs: 30}, {FromMs: 30, ToMs: 40, Acquired: 1, P50: 3}}
	require.Equal(t, "M5.0 99.0L15.0 98.0M33.5 97.0L36.5 97.0", curvePath(over, scale, line, func(m moment) float64 { return m.P50 }))
}

func TestAxesHaveRoundTicksThatDoNotCollide(t *testing.T) {
	texts := func(a axis) string {
		var all []string
		for _, tick := range a.ticks {
			all = append(all, tick.text)
		}
		return strings.Join(all, ", ")
	}
	require.Equal(t, "200 µs, 500 µs, 1 ms, 2 ms", texts(latencyAxis(300, 1100, 0, 800, 56)))
	require.Equal(t, "100 µs, 1 ms, 10 ms, 100 ms, 1 s, 10 s", texts(latencyAxis(100, 9e6, 0, 328, 56)))
	require.Equal(t, "1 ms, 2 ms", texts(latencyAxis(1000, 1000, 0, 300, 56)), "one value has an axis too")
	require.Equal(t, "0 s, 2 s, 4 s, 6 s", texts(timeAxis(6000, 0, 300, 64)))
	require.Equal(t, "0 ms, 20 ms, 40 ms", texts(timeAxis(50, 0, 300, 64)))
	require.Equal(t, "0 min, 5 min, 10 min, 15 min, 20 min", texts(timeAxis(20*60e3, 0, 300, 64)))
	require.Equal(t, "0 h, 5 h, 10 h, 15 h, 20 h", texts(timeAxis(24*3600e3, 0, 400, 64)))
	require.Equal(t, "0, 1", texts(countAxis(1, 72, 0, 24)), "no halves of failures")
	require.Equal(t, "0, 1,000, 2,000", texts(countAxis(1500, 72, 0, 24)))
	for decade := 0.1; decade < 1e8; decade *= 10 {
		for _, factor := range []float64{1, 1.01, 1.9, 2, 4.99, 5, 7, 9.99} {
			low := decade * factor
			for _, high := range []float64{low, low * 1.3, low * 40, low * 1e5} {
				a := latencyAxis(low, high, 0, 328, 56)
				require.LessOrEqual(t, a.low, low*1.001)
				require.GreaterOrEqual(t, a.high, high*0.999)
				require.GreaterOrEqual(t, len(a.ticks), 2, fmt.Sprint(low, " to ", high))
			}
		}
	}
}

func TestLongNamesAreCutInTheMiddle(t *testing.T) {
	require.Equal(t, "short", shortened("short", 5))
	require.Equal(t, "red…379", shortened("redis-1.example.com:6379", 7))
}

func TestReportGoesWhereItIsAsked(t *testing.T) {
	path := t.TempDir() + "/report.html"
	status, stdout, stderr := runFor(t, t.Context(), "-d", "300ms", "-report", path)
	require.Equal(t, exitMeasured, status, stderr)
	require.Contains(t, stdout, "rate/s")
	page := content(t, path)
	require.Contains(t, words(page), "On 5 embedded nodes (in this process: no network, no real servers), 1 caller took ")
	require.Len(t, drawings(t, page), 6)
}
