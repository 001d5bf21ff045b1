package main

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// pieceWidths are the lengths that a piece of the time line can have; maxPieces is how many a run of some
// minutes may have: a picture shows no more.
var pieceWidths = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
}

const maxPieces = 600

// pieceWidth is the shortest that divides the duration into few enough pieces.
func pieceWidth(duration time.Duration) time.Duration {
	for _, width := range pieceWidths {
		if duration <= maxPieces*width {
			return width
		}
	}
	return pieceWidths[len(pieceWidths)-1]
}

// Latencies on the time line fall into buckets no wider than 1 % of their value. A histogram per caller and
// piece would take 24 kB each; of a sealed piece only the buckets in use are kept.
const (
	bucketUnit   = 6 // bits: the first buckets are 64 ns wide
	bucketBits   = 7 // a doubling of the value has 128 buckets
	failedBucket = 23<<bucketBits + 1<<bucketBits
)

// bucketOf is the bucket of a latency up to longestLatency.
func bucketOf(latency time.Duration) int {
	v := uint64(min(max(int64(latency), 0), longestLatency)) >> bucketUnit
	shift := max(bits.Len64(v)-bucketBits-1, 0)
	return shift<<bucketBits + int(v>>shift)
}

// bucketValue is the middle of a bucket.
func bucketValue(bucket int) time.Duration {
	shift := max(bucket>>bucketBits-1, 0)
	low := (bucket - shift<<bucketBits) << shift
	return time.Duration((2*low + 1<<shift) << bucketUnit / 2)
}

// track is the time line as one caller sees it. Only that caller writes it, with no lock and, within a
// piece, no allocation.
type track struct {
	width   time.Duration
	last    int // an acquire that begins later than planned, in a short run, counts in the last piece
	piece   int // the one that is being counted
	counts  [failedBucket + 1]uint32
	touched []uint16 // the buckets with a count
	sealed  []bucketCount
}

// bucketCount is a count of a piece that is over.
type bucketCount struct {
	piece, bucket uint16
	count         uint32
}

func newTrack(duration time.Duration) *track {
	width := pieceWidth(duration)
	return &track{width: width, last: int((duration+width-1)/width) - 1}
}

// note records an acquire that was to begin so long after the end of the warm-up.
func (t *track) note(begun, latency time.Duration, failed bool) {
	if piece := min(int(begun/t.width), t.last); piece != t.piece {
		t.seal()
		t.piece = piece
	}
	bucket := failedBucket
	if !failed {
		bucket = bucketOf(latency)
	}
	if t.counts[bucket] == 0 {
		t.touched = append(t.touched, uint16(bucket))
	}
	t.counts[bucket]++
}

// seal puts away what was counted of the present piece.
func (t *track) seal() {
	for _, bucket := range t.touched {
		t.sealed = append(t.sealed, bucketCount{uint16(t.piece), bucket, t.counts[bucket]})
		t.counts[bucket] = 0
	}
	t.touched = t.touched[:0]
}

// timeline merges the callers' tracks, which must not be in use, into the pieces of a time line that ends
// after the given time.
func timeline(tracks []*track, end time.Duration) []moment {
	line := []moment{}
	if len(tracks) == 0 || end <= 0 {
		return line
	}
	width := tracks[0].width
	pieces := int((end + width - 1) / width)
	granted := make([]*hdrhistogram.Histogram, pieces)
	failed := make([]int64, pieces)
	for _, t := range tracks {
		t.seal()
		for _, c := range t.sealed {
			piece := min(int(c.piece), pieces-1)
			if c.bucket == failedBucket {
				failed[piece] += int64(c.count)
				continue
			}
			if granted[piece] == nil {
				granted[piece] = newHistogram()
			}
			_ = granted[piece].RecordValues(min(int64(bucketValue(int(c.bucket))), longestLatency), int64(c.count))
		}
	}
	for piece := range pieces {
		m := moment{
			FromMs: millis(width * time.Duration(piece)), ToMs: millis(min(width*time.Duration(piece+1), end)),
			Failed: failed[piece],
		}
		if granted[piece] != nil {
			l := latenciesOf(granted[piece])
			m.Acquired, m.P50, m.P99, m.Max = l.Count, l.P50, l.P99, l.Max
		}
		line = append(line, m)
	}
	return line
}
