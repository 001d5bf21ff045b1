package redlock

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// lines are the local queues of a locker, one for each key that Acquire is busy with.
type lines struct {
	locker  *Locker
	channel string        // where this locker is woken
	memory  time.Duration // how long a key counts as crowded

	mu      sync.Mutex
	byKey   map[string]*line
	arrived uint64 // callers so far
}

// line is the local queue of one key: the callers of Acquire for it, and the lock that one of them
// got. The place at its head is the right to ask the nodes. A lock keeps the places of its caller, so
// that a locker never contends with itself.
type line struct {
	lines  *lines
	key    string        // as stored
	notice chan struct{} // 1 place: the head's caller should try again

	// Guarded by lines.mu.
	taken   bool          // the place at the head; if not, the queue is empty
	queue   []*waiter     // for that place, in the order in which they came to the locker
	crowded clock.Instant // when others were last seen to wait for the key
	fading  bool          // a timer will look whether they still do
	gate    int           // where the line may be in the waiting list, or noGate
	entered int64         // since when, as that node told; 0: not known

	stranger sighting // of a foreign holder
}

// drop forgets a line without users, at once or when it is no longer known to be crowded; the
// caller holds mu.
func (s *lines) drop(ln *line) {
	if s.byKey[ln.key] != ln { // forgotten before, and the key may have another line since
		return
	}
	if !ln.isCrowded(s.locker.clock()) {
		delete(s.byKey, ln.key)
		return
	}
	if ln.fading {
		return
	}
	ln.fading = true
	time.AfterFunc(s.memory, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		ln.fading = false
		if !ln.taken {
			s.drop(ln)
		}
	})
}

// crowd notes that others wait for the key.
func (ln *line) crowd() {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.crowded = ln.lines.locker.clock()
}

func (ln *line) isCrowded(now clock.Instant) bool { return now.Since(ln.crowded) < ln.lines.memory }

// queues reports whether the head should go through the gate: it has a place there, or others
// were waiting a moment ago. Or else it may ask all nodes at once.
func (ln *line) queues(now clock.Instant) bool {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	return ln.gate != noGate || ln.isCrowded(now)
}

// enter notes that the line is about to enter the list at gate, and leaves that of another. It
// returns since when it is there, 0 for now.
func (ln *line) enter(gate int) (since int64) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.gate != gate {
		ln.leaveList()
		ln.gate = gate
	}
	return ln.entered
}

// keepPlace notes since when the line is in the list, for when it enters again.
func (ln *line) keepPlace(e *entry) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if e.answered {
		ln.entered = e.answer.since
	}
}

// leaveList leaves the list that the line is in, if any; the caller holds lines.mu, so that this comes
// before the next entry in the queue of the node.
func (ln *line) leaveList() {
	gate := ln.forgetList()
	if gate != noGate {
		ln.lines.withdraw(ln.key, gate)
	}
}

// forgetList is leaveList where something else will take the entry off; the caller holds lines.mu.
func (ln *line) forgetList() (gate int) {
	gate, ln.gate, ln.entered = ln.gate, noGate, 0
	return gate
}

// release is told the gate that a release goes to, and returns what to take off the list there.
func (ln *line) release(gate int) (channel string) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.gate == gate {
		ln.forgetList()
		return ln.lines.channel
	}
	ln.leaveList()
	return ""
}

// withdraw leaves the list of a key at a node. Nobody waits for it, and what does not get there ends with
// the list.
func (s *lines) withdraw(key string, gate int) {
	s.locker.nodes[gate].Withdraw(key, s.channel)
}

// wakeNext leaves the lists of keys that have just been freed together, and wakes the next in each. heed, if it is
// not nil, is told for each key whether somebody was woken.
func (s *lines) wakeNext(keys []any, heed func(key string, woke bool)) {
	for _, key := range keys {
		name := key.(string)
		gate := s.locker.gate(name, s.locker.clock())
		s.mu.Lock()
		if ln := s.byKey[name]; ln != nil && ln.gate == gate {
			ln.forgetList()
		} else if ln != nil {
			ln.leaveList()
		}
		refused := s.depart(name, gate, heed)
		s.mu.Unlock()
		if refused {
			heed(name, false)
		}
	}
}

// depart is withdraw whose answer heed is told, unless the node takes no calls now.
func (s *lines) depart(key string, gate int, heed func(key string, woke bool)) (refused bool) {
	if heed == nil {
		s.withdraw(key, gate)
		return false
	}
	parting := wire.Release{Key: key, Token: s.channel, Listed: true, Channel: s.channel}
	args := wire.ReleaseArgs(nil, releaseScript, []wire.Release{parting})
	return s.locker.nodes[gate].Ask(args, s.locker.clock(), func(reply wire.Value, _ error) {
		each, ok := wire.SplitReleases(reply, 1)
		heed(key, ok && wire.ReadRelease(each[0]).Woke)
	}) != nil
}

// wake tells who waits for a key that it may be free.
func (s *lines) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ln := s.byKey[key]; ln != nil {
		ln.rouse()
	}
}

// wakeAll tells all who are in lists of a node that their wake-ups may have been lost.
func (s *lines) wakeAll(gate int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ln := range s.byKey {
		if ln.gate == gate {
			ln.rouse()
		}
	}
}

func (ln *line) rouse() {
	select {
	case ln.notice <- struct{}{}:
	default:
	}
}
