package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPiecesAreShortAndFew(t *testing.T) {
	for duration, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 100 * time.Millisecond,
		time.Minute:           100 * time.Millisecond,
		2 * time.Minute:       200 * time.Millisecond,
		3 * time.Minute:       time.Second,
		10 * time.Minute:      time.Second,
		time.Hour:             10 * time.Second,
		24 * time.Hour:        5 * time.Minute,
	} {
		require.Equal(t, want, pieceWidth(duration), duration)
		require.LessOrEqual(t, int64(duration/want), int64(maxPieces))
	}
}

func TestBucketsAreWithinOnePercentOfTheirValues(t *testing.T) {
	last := -1
	for d := time.Duration(0); d <= 2*time.Minute; d += 1 + d/300 {
		bucket := bucketOf(d)
		require.GreaterOrEqual(t, bucket, last)
		require.Less(t, bucket, failedBucket)
		last = bucket
		if d > 10*time.Microsecond && d <= time.Minute {
			require.InEpsilon(t, d, bucketValue(bucket), 0.01, "%v in bucket %d", d, bucket)
		}
	}
}

func TestTimeLineMergesTheCallers(t *testing.T) {
	var tracks []*track
	for range 3 {
		track := newTrack(time.Second)
		for n := range 100 {
			track.note(time.Duration(n)*time.Millisecond, time.Duration(n+1)*time.Millisecond, false)
		}
		track.note(850*time.Millisecond, time.Second, true)
		track.note(850*time.Millisecond, 2*time.Second, false)
		track.note(5*time.Second, 3*time.Second, false)
		tracks = append(tracks, track)
	}
	line := timeline(tracks, time.Second)
	require.Len(t, line, 10)
	require.EqualValues(t, 300, line[0].Acquired)
	require.InEpsilon(t, 50_000, line[0].P50, 0.02)
	require.InEpsilon(t, 99_000, line[0].P99, 0.02)
	require.InEpsilon(t, 100_000, line[0].Max, 0.02)
	require.Equal(t, moment{FromMs: 100, ToMs: 200}, line[1], "nothing happened")
	require.EqualValues(t, 3, line[8].Acquired)
	require.EqualValues(t, 3, line[8].Failed)
	require.InEpsilon(t, 2e6, line[8].Max, 0.02)
	require.EqualValues(t, 3, line[9].Acquired, "what begins after the end counts in the last piece")
	require.Equal(t, 1000.0, line[9].ToMs)
}

func TestTimeLineEndsWithAnInterruptedRun(t *testing.T) {
	one := newTrack(time.Hour)
	one.note(12*time.Second, time.Millisecond, false)
	line := timeline([]*track{one}, 15*time.Second)
	require.Len(t, line, 2)
	require.Equal(t, 10_000.0, line[1].FromMs)
	require.Equal(t, 15_000.0, line[1].ToMs)
	require.EqualValues(t, 1, line[1].Acquired)
	require.Empty(t, timeline([]*track{one}, 0), "interrupted in the warm-up")
}

func TestRecordingWithinAPieceDoesNotAllocate(t *testing.T) {
	track := newTrack(time.Second)
	track.note(0, time.Millisecond, false)
	require.Zero(t, testing.AllocsPerRun(100, func() { track.note(0, time.Millisecond, false) }))
}
