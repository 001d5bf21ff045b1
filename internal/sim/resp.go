package sim

import (
	"bytes"
	"fmt"
	"strconv"
)

// parseCommand takes one command off the front of data; ok is false while it is incomplete.
// Clients send arrays of bulk strings and nothing else.
func parseCommand(data []byte) (args []string, rest []byte, ok bool) {
	n, rest, ok := parseHeader(data, '*')
	if !ok {
		return nil, data, false
	}
	args = make([]string, 0, n)
	for range n {
		var size int
		if size, rest, ok = parseHeader(rest, '$'); !ok || len(rest) < size+2 {
			return nil, data, false
		}
		args = append(args, string(rest[:size]))
		rest = rest[size+2:]
	}
	return args, rest, true
}

func parseHeader(data []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, found := bytes.Cut(data, []byte("\r\n"))
	if !found {
		return 0, data, false
	}
	if line[0] != kind {
		panic(fmt.Sprintf("sim: a client sent %q where %q was due", line, kind))
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		panic(fmt.Sprintf("sim: a client sent %q", line))
	}
	return n, rest, true
}

// status and failure are replies that are neither numbers, strings, arrays nor nil.
type (
	status  string
	failure string
)

// parseReply reads one reply of a server.
func parseReply(data []byte) (reply any, rest []byte) {
	line, rest, _ := bytes.Cut(data, []byte("\r\n"))
	kind, text := line[0], string(line[1:])
	switch kind {
	case '+':
		return status(text), rest
	case '-':
		return failure(text), rest
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("sim: a server sent %q", line))
	}
	switch {
	case kind == ':':
		return n, rest
	case n < 0:
		return nil, rest
	case kind == '$':
		return string(rest[:n]), rest[n+2:]
	}
	items := make([]any, n)
	for i := range items {
		items[i], rest = parseReply(rest)
	}
	return items, rest
}

// appendReply is the inverse of parseReply.
func appendReply(b []byte, reply any) []byte {
	switch reply := reply.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case int:
		return fmt.Appendf(b, ":%d\r\n", reply)
	case status:
		return fmt.Appendf(b, "+%s\r\n", string(reply))
	case failure:
		return fmt.Appendf(b, "-%s\r\n", string(reply))
	case string:
		return fmt.Appendf(b, "$%d\r\n%s\r\n", len(reply), reply)
	case []any:
		b = fmt.Appendf(b, "*%d\r\n", len(reply))
		for _, item := range reply {
			b = appendReply(b, item)
		}
		return b
	default:
		panic(fmt.Sprintf("sim: no reply can be %T", reply))
	}
}
