package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestQuantileIsTheSmallestValueThatCoversTheShare(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i, n := range rand.Perm(100) {
		hundred[i] = time.Duration(n+1) * time.Second
	}
	for _, c := range []struct {
		values []time.Duration
		q      float64
		want   float64
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]time.Duration{7 * time.Second}, 0.99, 7},
		{[]time.Duration{2 * time.Second, time.Second}, 0.5, 1},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%d values, %v) = %v, want %v", len(c.values), c.q, got, c.want)
		}
	}
	if got := quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing = %v, want NaN", got)
	}
}

func TestSpreadLeavesOutRoundsWithoutMeasurement(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{nan}, spread{}},
		{[]float64{3}, spread{3, 3, 3, 1}},
		{[]float64{3, 1, 2}, spread{2, 1, 3, 3}},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4, 4}},
		{[]float64{nan, 5, 1}, spread{3, 1, 5, 2}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("spreadOf(%v) = %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestSpreadLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, math.NaN(), 1}
	spreadOf(values)
	if values[0] != 3 || !math.IsNaN(values[1]) || values[2] != 1 {
		t.Errorf("changed to %v", values)
	}
}

func TestRatiosDivideWithinARound(t *testing.T) {
	nan := math.NaN()
	same(t, ratios([]float64{10, 0, 4, nan, 9}, []float64{5, 2, 0, 1, nan}), []float64{2, 0, nan, nan, nan})
	same(t, ratios([]float64{1, 2}, nil), nil)
}

func TestBestPicksRoundByRound(t *testing.T) {
	nan := math.NaN()
	a, b := []float64{1, 5, nan, 2}, []float64{2, 4, 3, nan}
	same(t, best(a, b, math.Max), []float64{2, 5, 3, 2})
	same(t, best(a, b, math.Min), []float64{1, 4, 3, 2})
	same(t, best(nil, b, math.Min), b)
	same(t, best(a, nil, math.Min), a)
}

func same(t *testing.T, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
