package sim

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// atRate is what a clock shows of a time: it runs faster than true time by so many parts per million.
func atRate(elapsed time.Duration, ppm int) time.Duration {
	millions, rest := elapsed/1_000_000, elapsed%1_000_000
	return elapsed + millions*time.Duration(ppm) + rest*time.Duration(ppm)/1_000_000
}

// stretched is how long a clock that is slower by so many ppm (ppm ≤ 0) may take to show d, and a few ns more
// for timers that are set anew.
func stretched(d time.Duration, ppm int) time.Duration {
	if ppm == 0 {
		return d
	}
	return time.Duration(float64(d)*1e6/float64(1_000_000+ppm)) + 100*time.Nanosecond
}

// nodeClock runs at its own rate and has its own idea of the time of day.
type nodeClock struct {
	begin time.Time     // true
	shift time.Duration // what it was off by then
	ppm   int           // how much faster than true time it runs
}

func (c nodeClock) now() time.Time { return c.begin.Add(c.shift + atRate(time.Since(c.begin), c.ppm)) }

// machine is the clocks of a client's machine. While it is suspended the monotonic clock stands still, and what
// it misses is counted.
type machine struct {
	begin time.Time // true
	ppm   int

	mu       sync.Mutex
	suspends int           // so many faults keep the machine asleep …
	asleepAt time.Duration // … since then, by its clock
	slept    time.Duration // in suspensions that are over
	ahead    time.Duration // of the time of day; nobody may rely on it
}

// Now reads the clock that counts suspensions.
func (m *machine) Now() clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	total, slept := m.elapsed(), m.slept
	if m.suspends > 0 {
		slept += total - m.asleepAt
	}
	return clock.At(m.begin.Add(total-slept), slept)
}

// Today is the time of day.
func (m *machine) Today() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begin.Add(m.elapsed() + m.ahead)
}

func (m *machine) elapsed() time.Duration { return atRate(time.Since(m.begin), m.ppm) }

func (m *machine) suspend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspends++; m.suspends == 1 {
		m.asleepAt = m.elapsed()
	}
}

func (m *machine) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspends--; m.suspends == 0 {
		m.slept += m.elapsed() - m.asleepAt
	}
}

// set moves the time of day.
func (m *machine) set(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += by
}
