package redistest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// ErrNoCompiler is returned, wrapped, where servers' clocks cannot be skewed for want of a C compiler.
var ErrNoCompiler = errors.New("redistest: skewed clocks need Linux and a C compiler on PATH (Debian, Ubuntu: apt-get install gcc libc6-dev)")

const (
	maxOffset = 10 * 365 * 24 * time.Hour // keeps every sum of nanoseconds well inside an int64
	maxRate   = 1000
)

// StartSkewable is Start for servers whose clocks obey SetClock; until then they run true. A small library,
// compiled once per process, stands before the server's clock_gettime, gettimeofday and time.
func StartSkewable(n int, args ...string) ([]*Server, error) {
	return start(n, true, args)
}

// SkewableForTest is ForTest for servers whose clocks obey SetClock. It also skips the test where there is
// no C compiler, and everywhere but on Linux.
func SkewableForTest(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	servers, err := StartSkewable(n, args...)
	if errors.Is(err, ErrNoCompiler) {
		tb.Skipf("needs skewed clocks: %v", err)
	}
	return forTest(tb, servers, err)
}

// SetClock makes the server's clocks run at rate (1 is true, 1.1 is ten percent fast), from what they show now,
// and puts its wall clock off by offset; it takes effect at once, on a paused server too, and lasts over a
// restart. The offset replaces the one before, so that SetClock(0, 1) takes a jump of the wall clock back;
// time won or lost by the rate stays won or lost. The monotonic clock knows no offset and never goes
// back. Waiting is not skewed: a timer that the server works out by its clock is slept off in true time.
// A server built to read the processor's own counter keeps a true monotonic clock.
func (s *Server) SetClock(offset time.Duration, rate float64) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	return s.done(fmt.Sprintf("set clock to offset %v, rate %v", offset, rate), s.setClock(offset, rate))
}

func (s *Server) setClock(offset time.Duration, rate float64) error {
	switch {
	case s.stopped:
		return errStopped
	case s.clock == nil:
		return errors.New("it keeps the machine's time, as StartSkewable did not start it")
	case offset > maxOffset || offset < -maxOffset:
		return fmt.Errorf("offset %v is beyond ±%v", offset, maxOffset)
	case !(rate > 0 && rate <= maxRate): // NaN is in no range
		return fmt.Errorf("rate %v is not above 0 and at most %v", rate, maxRate)
	}
	s.clock.set(offset, rate)
	return nil
}
