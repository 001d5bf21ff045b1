package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func read(t require.TestingT, stream string) Value {
	v, err := NewReader(strings.NewReader(stream)).Read()
	require.NoError(t, err, "%q", stream)
	return v
}

func TestRepliesAreReadAsTheyWereMeant(t *testing.T) {
	for stream, want := range map[string]Value{
		"+OK\r\n":                       {Kind: Status, Text: "OK"},
		"-ERR no\r\n":                   {Kind: Failure, Text: "ERR no"},
		":-7\r\n":                       {Kind: Int, Int: -7},
		":9223372036854775807\r\n":      {Kind: Int, Int: 9223372036854775807},
		"$-1\r\n":                       {},
		"*-1\r\n":                       {},
		"$0\r\n\r\n":                    {Kind: Text},
		"$4\r\na\r\nb\r\n":              {Kind: Text, Text: "a\r\nb"},
		"*0\r\n":                        {Kind: List},
		"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n": {Kind: List, List: []Value{{Kind: Int, Int: 1}, {Kind: List, List: []Value{{Kind: Text, Text: "x"}}}}},
	} {
		require.Equal(t, want, read(t, stream), "%q", stream)
	}
}

func TestAnythingElseEndsTheConnection(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "OK\r\n", "+OK\n", ":\r\n", ":1x\r\n", ":+1\r\n", ":9223372036854775808\r\n", ":-9223372036854775809\r\n",
		"$-2\r\n", "$3\r\nabcd\r\n", "$2147483648\r\n", "*-2\r\n", "*1048577\r\n", "%1\r\n+a\r\n+b\r\n", "_\r\n",
		strings.Repeat("*1\r\n", 20) + ":1\r\n", "+" + strings.Repeat("x", 3*maxLine),
	} {
		_, err := NewReader(strings.NewReader(stream)).Read()
		require.ErrorIs(t, err, ErrProtocol, "%.40q", stream)
	}
}

func TestTheEndOfTheStreamIsToldFromTheEndWithinAReply(t *testing.T) {
	_, err := NewReader(strings.NewReader("")).Read()
	require.Equal(t, io.EOF, err)
	for _, stream := range []string{"+O", "$3\r\nab", "$3\r\nabc", "*2\r\n:1\r\n", "*1\r\n", "$2000000\r\nabc"} {
		_, err := NewReader(strings.NewReader(stream)).Read()
		require.Equal(t, io.ErrUnexpectedEOF, err, "%q", stream)
	}
	broken := errors.New("broken")
	_, err = NewReader(iotest.ErrReader(broken)).Read()
	require.Equal(t, broken, err)
}

func TestATextThatIsTooLongIsAFailureOfItsReplyAlone(t *testing.T) {
	long := AppendReply(nil, Value{Kind: Text, Text: strings.Repeat("x", maxText+1)})
	r := NewReader(bytes.NewReader(append(long, ":1\r\n"...)))
	v, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, Failure, v.Kind)
	v, err = r.Read()
	require.NoError(t, err)
	require.Equal(t, Value{Kind: Int, Int: 1}, v)
}

func TestCommonRepliesCostNoAllocation(t *testing.T) {
	stream := "+OK\r\n$-1\r\n:1\r\n*3\r\n:1\r\n:2\r\n:3\r\n"
	src := strings.NewReader(stream)
	r := NewReader(src)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		src.Reset(stream)
		for range 4 {
			if _, err := r.Read(); err != nil {
				t.Error(err)
			}
		}
	}))
}

func anyValue(depth int) *rapid.Generator[Value] {
	leaf := rapid.OneOf(
		rapid.Just(Value{}),
		rapid.Map(rapid.Int64(), func(i int64) Value { return Value{Kind: Int, Int: i} }),
		rapid.Map(rapid.String(), func(s string) Value { return Value{Kind: Text, Text: s} }),
		rapid.Map(rapid.StringMatching(`[A-Za-z ]{0,9}`), func(s string) Value { return Value{Kind: Status, Text: s} }),
		rapid.Map(rapid.StringMatching(`[A-Z]{1,9} [a-z ]{0,9}`), func(s string) Value { return Value{Kind: Failure, Text: s} }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(anyValue(depth-1), 1, 4), func(l []Value) Value { return Value{Kind: List, List: l} }))
}

func checkRoundTrip(t *rapid.T) {
	v := anyValue(3).Draw(t, "value")
	b := AppendReply(nil, v)
	for _, src := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b))} {
		got, err := NewReader(src).Read()
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	got, rest, err := ParseReply(append(b, "more"...))
	require.NoError(t, err)
	require.Equal(t, v, got)
	require.Equal(t, "more", string(rest))
}

func TestWhatIsWrittenIsRead(t *testing.T) { rapid.Check(t, checkRoundTrip) }

func FuzzRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRoundTrip)) }

func TestCommandsAreParsedAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.String(), 1, 6).Draw(t, "args")
		boxed := make([]any, len(args))
		for i, a := range args {
			boxed[i] = a
		}
		b := AppendCommand(nil, boxed)
		for cut := range len(b) {
			_, _, ok, err := ParseCommand(b[:cut])
			require.NoError(t, err)
			require.False(t, ok, "incomplete")
		}
		got, rest, ok, err := ParseCommand(append(b, "rest"...))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, args, got)
		require.Equal(t, "rest", string(rest))
	})
	require.Equal(t, "*3\r\n$1\r\na\r\n$2\r\n-7\r\n$2\r\n12\r\n", string(AppendCommand(nil, []any{"a", -7, int64(12)})))
	require.Panics(t, func() { AppendCommand(nil, []any{1.5}) })
}

// FuzzReader feeds any bytes: nothing panics, and no more is kept than was sent, but for a constant.
func FuzzReader(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nabc\r\n:1\r\n+OK\r\n-ERR\r\n$-1\r\n"))
	f.Add([]byte("*1048576\r\n$1073741824\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		for {
			v, err := r.Read()
			if err != nil {
				break
			}
			for _, result := range []Result{ReadSet(v), ReadAcquire(v, 2), ReadRenewal(v), ReadRelease(v)} {
				if result.Blocked < 0 || result.Blocked > 1 || result.Fence < 0 {
					t.Fatalf("%+v", result)
				}
			}
			_, _ = Of(v.Any())
		}
		if len(r.buf) > 2*len(data)+1<<14 {
			t.Fatalf("%d bytes are kept of %d", len(r.buf), len(data))
		}
		_, _, _, _ = ParseCommand(data)
	})
}
