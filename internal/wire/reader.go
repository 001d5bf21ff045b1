package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of one reply. Lengths that a server announces cost nothing before the bytes are there.
const (
	maxLine    = 1 << 16 // of a status, an error or a length
	maxText    = 1 << 20 // kept of one string; a longer one is read away and is a Failure
	maxReply   = 1 << 24 // bytes kept of all strings of a reply
	maxEntries = 1 << 20 // entries of all lists of a reply
	maxNesting = 8
	maxLength  = 1 << 30 // the protocol ends at 512 MB
)

// ErrProtocol is the class of all that is no reply. Nothing after it on the connection can be understood.
var ErrProtocol = errors.New("not the Redis protocol")

// Reader reads the replies of a server (RESP2), one after the other. It keeps no more than the bounds above,
// whatever the server sends, and reads strictly: anything that is no reply ends the connection.
type Reader struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] has been read and is not used yet

	list    []Value // of the latest reply
	text    int     // bytes that strings of the present reply may still have
	entries int
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 1<<13)} }

// Read returns the next reply. Its list may be overwritten by the next Read; its strings stay. The error is that of
// the source, or an ErrProtocol; io.EOF only between two replies.
func (r *Reader) Read() (Value, error) {
	r.text, r.entries = maxReply, maxEntries
	v, err := r.value(0)
	if err == io.EOF && (r.w > r.r || v.Kind != Nil) {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// Buffered reports whether more has arrived than was read.
func (r *Reader) Buffered() bool { return r.w > r.r }

func (r *Reader) value(depth int) (Value, error) {
	line, err := r.line()
	if err != nil {
		if depth > 0 {
			err = within(err)
		}
		return Value{}, err
	}
	if len(line) == 0 {
		return Value{}, fmt.Errorf("%w: an empty line", ErrProtocol)
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return Value{Kind: Status, Text: status(rest)}, nil
	case '-':
		return Value{Kind: Failure, Text: string(rest)}, nil
	}
	n, ok := parseInt(rest)
	switch {
	case !ok:
	case kind == ':':
		return Value{Kind: Int, Int: n}, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return Value{}, nil
	case n < 0 || n > maxLength:
	case kind == '$':
		return r.bulk(int(n))
	case kind == '*' && depth < maxNesting && n <= int64(r.entries):
		return r.entriesOf(int(n), depth)
	}
	return Value{}, fmt.Errorf("%w: %.40q", ErrProtocol, line)
}

// status is a string without an allocation for what is said often.
func status(text []byte) string {
	switch string(text) {
	case "OK":
		return "OK"
	case "PONG":
		return "PONG"
	}
	return string(text)
}

func (r *Reader) entriesOf(n, depth int) (Value, error) {
	r.entries -= n
	var list []Value
	if depth == 0 {
		list = r.list[:0]
	}
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		list = append(list, v)
	}
	if depth == 0 && cap(list) <= 1<<12 {
		r.list = list
	}
	return Value{Kind: List, List: list}, nil
}

// bulk reads a string of n bytes and the line end behind it.
func (r *Reader) bulk(n int) (Value, error) {
	if n > maxText || n > r.text {
		if err := r.discard(n); err != nil {
			return Value{}, err
		}
		return Value{Kind: Failure, Text: fmt.Sprintf("a string of %d bytes is too long for a reply", n)}, r.lineEnd()
	}
	r.text -= n
	if err := r.fill(n + 2); err != nil {
		return Value{}, err
	}
	text := string(r.buf[r.r : r.r+n])
	r.r += n
	return Value{Kind: Text, Text: text}, r.lineEnd()
}

func (r *Reader) lineEnd() error {
	if err := r.fill(2); err != nil {
		return err
	}
	if r.buf[r.r] != '\r' || r.buf[r.r+1] != '\n' {
		return fmt.Errorf("%w: a string is longer than announced", ErrProtocol)
	}
	r.r += 2
	return nil
}

// line returns the next line without its end. It is valid until the next read.
func (r *Reader) line() ([]byte, error) {
	for from := 0; ; {
		have := r.buf[r.r:r.w]
		if i := bytes.IndexByte(have[from:], '\n'); i >= 0 {
			i += from
			if i == 0 || have[i-1] != '\r' {
				return nil, fmt.Errorf("%w: a line without a carriage return", ErrProtocol)
			}
			r.r += i + 1
			return have[:i-1], nil
		}
		if from = len(have); from > maxLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// fill reads until n bytes are there.
func (r *Reader) fill(n int) error {
	for r.w-r.r < n {
		if err := r.more(); err != nil {
			return within(err)
		}
	}
	return nil
}

func (r *Reader) discard(n int) error {
	for n > 0 {
		taken := min(n, r.w-r.r)
		r.r += taken
		if n -= taken; n > 0 {
			if err := r.more(); err != nil {
				return within(err)
			}
		}
	}
	return nil
}

func within(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// more reads something. The buffer grows only when it is full of bytes that are needed.
func (r *Reader) more() error {
	switch {
	case r.r == r.w:
		r.r, r.w = 0, 0
		if len(r.buf) > maxLine { // for one large reply
			r.buf = make([]byte, 1<<13)
		}
	case r.w < len(r.buf):
	case r.r > 0:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	default:
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		if n > 0 {
			return nil // an error will come again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// parseInt reads a decimal number of the protocol: digits behind a minus sign or nothing, within int64.
func parseInt(text []byte) (n int64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case negative || u >= 1<<63:
		return 0, false
	}
	return int64(u), true
}
