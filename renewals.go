package redlock

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// renewals paces the automatic renewals of a locker. Its mutex is taken with that of a claim held,
// never the reverse.
type renewals struct {
	clock func() clock.Instant

	mu      sync.Mutex
	pacer   pacer
	timer   *time.Timer // starts run; nil before the first lock that had to wait
	running bool        // run has been started, or will be by the timer
}

// enter reports whether the renewal of k, which is due, may be launched now. If not, k waits.
func (s *renewals) enter(k *Lock, ends clock.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pacer.enter() {
		return true
	}
	s.pacer.wait(k, ends)
	s.rouse()
	return false
}

// leave takes a lock out of the queue.
func (s *renewals) leave(k *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pacer.remove(k)
}

// done ends a renewal that was launched, and lets others follow.
func (s *renewals) done(e ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pacer.done(e, s.clock())
	s.rouse()
}

// rouse starts run if locks wait; the caller holds s.mu.
func (s *renewals) rouse() {
	switch {
	case s.running || len(s.pacer.queue) == 0:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(0, s.run)
	default:
		s.timer.Reset(0)
	}
	s.running = true
}

// run launches what may be launched now. It has a goroutine to itself, as most renewals end on that
// of a node's worker, which has answers to read, and some within their own launch.
func (s *renewals) run() {
	for {
		s.mu.Lock()
		k, pause := s.pacer.next(s.clock())
		switch {
		case k != nil:
		case pause > 0:
			s.timer.Reset(pause)
		default:
			s.running = false
		}
		s.mu.Unlock()
		if k == nil {
			return
		}
		k.renewInTurn()
	}
}
