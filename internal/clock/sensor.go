package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// grain is by how much the wall clock must have moved against the monotonic one to be a sign.
const grain = time.Millisecond

// sensor keeps what the monotonic clock has missed, and looks again when the wall clock has moved
// against it.
type sensor struct {
	look  func(before, step time.Duration) time.Duration // returns what has been missed in all
	base  time.Time                                      // the two clocks are compared from here on
	ahead atomic.Int64                                   // how far the wall clock was ahead of the monotonic one at the last look
	slept atomic.Int64                                   // what look returned then

	mu sync.Mutex // of those who look
}

func newSensor(look func(before, step time.Duration) time.Duration) *sensor {
	s := &sensor{look: look, base: time.Now()}
	s.slept.Store(int64(look(0, 0)))
	return s
}

func (s *sensor) missed(now time.Time) time.Duration {
	ahead := now.UnixNano() - s.base.UnixNano() - int64(now.Sub(s.base))
	if step := time.Duration(ahead - s.ahead.Load()); step > grain || step < -grain {
		s.lookAgain(ahead)
	}
	return time.Duration(s.slept.Load())
}

// lookAgain never lets the time that was missed shrink: clocks may only be wrong in haste.
func (s *sensor) lookAgain(ahead int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := time.Duration(ahead - s.ahead.Load()) // another reader may have looked meanwhile
	slept := time.Duration(s.slept.Load())
	s.slept.Store(int64(max(slept, s.look(slept, step))))
	s.ahead.Store(ahead)
}

// stepOfWallClock takes a wall clock that moved forward for a suspension, for systems that tell no
// better.
func stepOfWallClock(before, step time.Duration) time.Duration { return before + max(0, step) }
