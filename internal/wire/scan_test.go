package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scan counts the values in the pieces and reports whether the stream then stands between two.
func scan(pieces ...string) (values int, idle bool) {
	var s Scanner
	for _, text := range pieces {
		for piece := []byte(text); len(piece) > 0; {
			n, ended := s.Next(piece)
			if ended {
				values++
			}
			piece = piece[n:]
		}
	}
	return values, s.Idle()
}

func TestScannerFindsTheEndsOfValues(t *testing.T) {
	for _, c := range []struct {
		stream string
		values int
		idle   bool
	}{
		{"", 0, true},
		{"+OK\r\n", 1, true},
		{"+OK\r", 0, false},
		{"-ERR no\r\n:1\r\n_\r\n#t\r\n,1.5\r\n(12\r\n", 6, true},
		{"$3\r\na\nb\r\n", 1, true},
		{"$3\r\na\nb\r", 0, false},
		{"$-1\r\n*-1\r\n*0\r\n%0\r\n", 4, true},
		{"*2\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n", 1, true},
		{"*2\r\n$1\r\na\r\n", 0, false},
		{"%1\r\n+a\r\n:1\r\n~1\r\n!4\r\nERR!\r\n=5\r\ntxt:x\r\n", 3, true},
		{"|1\r\n+a\r\n:1\r\n+OK\r\n", 1, true},
		{">2\r\n+message\r\n+x\r\n", 0, true},
		{"+OK\r\n>1\r\n+x\r\n+OK\r\n", 2, true},
		{"PING\r\n\r\nPING\r\n", 2, true},
		{"$99999999999999999999\r\n*x\r\n$\r\n", 3, true},
		{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n", 2, true},
	} {
		values, idle := scan(c.stream)
		require.Equal(t, c.values, values, "%q", c.stream)
		require.Equal(t, c.idle, idle, "%q", c.stream)
	}
}

func TestScannerBoundsWhatItKeeps(t *testing.T) {
	var s Scanner
	for _, text := range []string{strings.Repeat("*1\r\n", 1000), strings.Repeat("x", 100_000)} {
		_, _ = s.Next([]byte(text))
		require.LessOrEqual(t, len(s.open), scanDepth)
		require.LessOrEqual(t, len(s.head), scanHead)
	}
}

func FuzzScannerDoesNotMindWhereTheStreamIsCut(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n>1\r\n+x\r\nPING\r\n", 7)
	f.Add("|1\r\n+a\r\n%1\r\n:1\r\n$-1\r\n+OK\r\n", 3)
	f.Fuzz(func(t *testing.T, stream string, at int) {
		at = min(max(at, 0), len(stream))
		values, idle := scan(stream)
		twoValues, twoIdle := scan(stream[:at], stream[at:])
		require.Equal(t, values, twoValues)
		require.Equal(t, idle, twoIdle)
		each, eachIdle := scan(strings.Split(stream, "")...)
		require.Equal(t, values, each)
		require.Equal(t, idle, eachIdle)
	})
}
