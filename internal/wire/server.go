package wire

import (
	"bytes"
	"fmt"
)

// maxArgs is the most arguments of a command that a test server takes.
const maxArgs = 1 << 20

// ParseCommand takes one command off the front of data, as a server does; ok is false while it is incomplete.
// Clients send arrays of strings and nothing else: anything else is an ErrProtocol.
func ParseCommand(data []byte) (args []string, rest []byte, ok bool, err error) {
	n, rest, ok, err := parseHead(data, '*', maxArgs)
	if !ok {
		return nil, data, false, err
	}
	args = make([]string, 0, min(n, 64))
	for range n {
		var size int
		if size, rest, ok, err = parseHead(rest, '$', maxLength); !ok || len(rest) < size+2 {
			return nil, data, false, err
		}
		if rest[size] != '\r' || rest[size+1] != '\n' {
			return nil, data, false, fmt.Errorf("%w: a string is longer than announced", ErrProtocol)
		}
		args = append(args, string(rest[:size]))
		rest = rest[size+2:]
	}
	return args, rest, true, nil
}

func parseHead(data []byte, kind byte, most int64) (n int, rest []byte, ok bool, err error) {
	line, rest, found := bytes.Cut(data, []byte("\r\n"))
	switch {
	case !found && len(data) > maxLine:
		return 0, data, false, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
	case !found:
		return 0, data, false, nil
	case len(line) == 0 || line[0] != kind:
		return 0, data, false, fmt.Errorf("%w: %.40q where %q was due", ErrProtocol, line, kind)
	}
	count, good := parseInt(line[1:])
	if !good || count < 0 || count > most {
		return 0, data, false, fmt.Errorf("%w: %.40q", ErrProtocol, line)
	}
	return int(count), rest, true, nil
}

// ParseReply reads the one reply that data begins with, and returns what follows it.
func ParseReply(data []byte) (v Value, rest []byte, err error) {
	src := bytes.NewReader(data)
	r := Reader{src: src, buf: make([]byte, min(len(data)+1, 1<<13))}
	v, err = r.Read()
	return v, data[len(data)-src.Len()-(r.w-r.r):], err
}
