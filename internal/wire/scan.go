package wire

import (
	"bytes"
	"strconv"
)

const (
	scanHead  = 32      // bytes kept of a line: a kind and a count
	scanDepth = 64      // of nested values
	scanCount = 1 << 30 // of a length; the protocol ends at 512 MB
)

// Scanner finds where requests and replies end in a stream of RESP2 or RESP3, however it is cut into pieces.
// It keeps no data but the start of an unfinished line. What it cannot read counts as a line of its own,
// as an inline command does. The zero value is ready.
type Scanner struct {
	head []byte // of the line under way
	body int    // bytes to come of a bulk string, its line end included
	open []int  // values to come, for each aggregate that the present one is nested in
	push bool   // this one answers no request
}

// Idle reports whether the stream stands between two values.
func (s *Scanner) Idle() bool { return len(s.head) == 0 && s.body == 0 && len(s.open) == 0 }

// Next reads up to the end of the next value, and no further. It returns how many bytes that is, and whether
// they end a request or a reply; if not, the piece has ended, or what did is a push or an empty line.
func (s *Scanner) Next(piece []byte) (n int, ended bool) {
	for n < len(piece) {
		if s.body > 0 {
			taken := min(s.body, len(piece)-n)
			s.body -= taken
			n += taken
			if s.body > 0 || !s.close() {
				continue
			}
			return n, !s.push
		}
		line, whole := upToLineEnd(piece[n:])
		n += len(line)
		s.head = append(s.head, line[:min(len(line), scanHead-len(s.head))]...)
		if !whole {
			continue
		}
		kind, count, empty := s.parseHead()
		if s.Idle() {
			if empty {
				return n, false
			}
			s.push = kind == '>'
		}
		if s.begin(kind, count) && s.close() {
			return n, !s.push
		}
	}
	return n, false
}

func upToLineEnd(piece []byte) (line []byte, whole bool) {
	if i := bytes.IndexByte(piece, '\n'); i >= 0 {
		return piece[:i+1], true
	}
	return piece, false
}

// parseHead takes the line under way; the count is 0 where there is none.
func (s *Scanner) parseHead() (kind byte, count int, empty bool) {
	line := bytes.TrimRight(s.head, "\r\n")
	s.head = s.head[:0]
	if len(line) == 0 {
		return 0, 0, true
	}
	count, err := strconv.Atoi(string(line[1:]))
	if err != nil || count < 0 || count > scanCount {
		return line[0], -1, false
	}
	return line[0], count, false
}

// begin starts a value and reports whether its first line is all of it.
func (s *Scanner) begin(kind byte, count int) bool {
	values := 0
	switch kind {
	case '$', '=', '!':
		if count >= 0 {
			s.body = count + len("\r\n")
			return false
		}
	case '*', '~', '>':
		values = count
	case '%':
		values = 2 * count
	case '|':
		values = 2*count + 1 // attributes, and then the value that they belong to
	}
	if values <= 0 || len(s.open) == scanDepth {
		return true
	}
	s.open = append(s.open, values)
	return false
}

// close ends a value, and with it the aggregates of which it is the last. It reports whether none is left.
func (s *Scanner) close() bool {
	for last := len(s.open) - 1; last >= 0; last-- {
		if s.open[last]--; s.open[last] > 0 {
			return false
		}
		s.open = s.open[:last]
	}
	return true
}
