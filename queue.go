package redlock

import (
	"cmp"
	"slices"
)

// seat gives a caller the places at the head of all its lines. If one of them is taken, the caller gives up
// the place it has and joins the queue of that line. It gets its turn when it has all places.
//
// A caller never waits in one line with a place in another. So callers do not deadlock, and no caller
// keeps others from a free key. They do not chase each other from line to line either: serve seats
// nobody halfway. A place is taken only by a caller with all its places, which makes an attempt, or by one
// that sleeps after an attempt. So each round of moves is finite, and follows an attempt.
func (s *lines) seat(w *waiter) bool {
	if len(w.places) == len(w.stored) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.arrival == 0 {
		s.arrived++
		w.arrival = s.arrived
	}
	by := s.blocks(w)
	if by == nil {
		s.sit(w)
		return true
	}
	had := w.places
	w.places = nil
	s.free(had)
	by.enqueue(w)
	return false
}

// blocks returns the first line whose place somebody else has; the caller holds mu.
func (s *lines) blocks(w *waiter) *line {
	for _, key := range w.stored {
		if ln := s.byKey[key]; ln != nil && ln.taken && !slices.Contains(w.places, ln) {
			return ln
		}
	}
	return nil
}

// sit takes all places, which are free or w's already; the caller holds mu.
func (s *lines) sit(w *waiter) {
	w.places = make([]*line, len(w.stored))
	for i, key := range w.stored {
		ln := s.byKey[key]
		if ln == nil {
			ln = &line{lines: s, key: key, notice: make(chan struct{}, 1), gate: noGate}
			s.byKey[key] = ln
		}
		ln.taken = true
		w.places[i] = ln
	}
	if w.list == nil {
		w.list = w.places[0]
	}
}

// enqueue keeps the order of arrival: who comes from another queue loses nothing by it. The caller holds mu.
func (ln *line) enqueue(w *waiter) {
	i, _ := ln.find(w)
	ln.queue = slices.Insert(ln.queue, i, w)
	w.list, w.queued = ln, true
}

func (ln *line) find(w *waiter) (i int, found bool) {
	return slices.BinarySearchFunc(ln.queue, w, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
}

// keep gives up all places but the one in the line in whose list the caller waits.
func (s *lines) keep(w *waiter) {
	if len(w.places) == 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(w.places, func(ln *line) bool { return ln == w.list })
	w.places = []*line{w.list}
	s.free(others)
}

// quit ends the part of a caller that has no lock.
func (s *lines) quit(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.queued {
		i, _ := w.list.find(w)
		w.list.queue = slices.Delete(w.list.queue, i, i+1)
		w.queued = false
	}
	s.free(w.places)
	w.places = nil
}

// pass gives up the places of a lock. Whoever held the keys before it is gone.
func (s *lines) pass(places []*line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ln := range places {
		ln.stranger = sighting{}
	}
	s.free(places)
}

// lose is pass for a lock that was lost: nobody takes its entry off the waiting list.
func (ln *line) lose() {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.leaveList()
	ln.lines.free([]*line{ln})
}

// free gives up places, all before any of them is given to somebody; the caller holds mu.
func (s *lines) free(places []*line) {
	for _, ln := range places {
		ln.taken = false
	}
	for _, ln := range places {
		s.serve(ln)
	}
}

// serve gives a free place to the first in its queue for whom the other places are free too. Those before
// it wait where they are blocked now. A line without users leaves the waiting list. The caller holds mu.
func (s *lines) serve(ln *line) {
	for !ln.taken && len(ln.queue) > 0 {
		w := ln.queue[0]
		ln.queue[0] = nil
		ln.queue = ln.queue[1:]
		w.queued = false
		if by := s.blocks(w); by != nil {
			by.enqueue(w)
			continue
		}
		s.sit(w)
		w.turn <- struct{}{}
	}
	if !ln.taken {
		ln.leaveList()
		s.drop(ln)
	}
}
