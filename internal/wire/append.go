package wire

import (
	"fmt"
	"strconv"
)

// AppendCommand appends a command to b. Its arguments are strings, byte slices and integers; anything else is
// a mistake of the caller, and panics.
func AppendCommand(b []byte, args []any) []byte {
	b = appendHead(b, '*', int64(len(args)))
	for _, arg := range args {
		b = appendArg(b, arg)
	}
	return b
}

func appendArg(b []byte, arg any) []byte {
	switch arg := arg.(type) {
	case string:
		return appendText(b, arg)
	case int64:
		return appendInt(b, arg)
	case int:
		return appendInt(b, int64(arg))
	case []byte:
		return appendText(b, string(arg))
	}
	panic(fmt.Sprintf("wire: a %T is no argument", arg))
}

func appendHead(b []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, kind), n, 10), "\r\n"...)
}

func appendText(b []byte, s string) []byte {
	b = append(appendHead(b, '$', int64(len(s))), s...)
	return append(b, "\r\n"...)
}

func appendInt(b []byte, i int64) []byte {
	var room [20]byte
	digits := strconv.AppendInt(room[:0], i, 10)
	b = append(appendHead(b, '$', int64(len(digits))), digits...)
	return append(b, "\r\n"...)
}

// AppendReply appends a server's reply to b. Line ends in a Status or Failure would end it, and become spaces.
func AppendReply(b []byte, v Value) []byte {
	switch v.Kind {
	case Int:
		return appendHead(b, ':', v.Int)
	case Text:
		return appendText(b, v.Text)
	case Status:
		return appendLine(b, '+', v.Text)
	case Failure:
		return appendLine(b, '-', v.Text)
	case List:
		b = appendHead(b, '*', int64(len(v.List)))
		for _, e := range v.List {
			b = AppendReply(b, e)
		}
		return b
	}
	return append(b, "$-1\r\n"...)
}

func appendLine(b []byte, kind byte, text string) []byte {
	b = append(b, kind)
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, "\r\n"...)
}
