package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// After a release, the lock keeps its places in the local queues for a moment: the next caller of this process must not be
// at the gate before the waiter of another process that the release has woken.

// freedAtGate notes whether the gate of a key woke somebody, and gives up the places when no gate of the lock
// is left to answer. If somebody was woken, whose attempt is on its way there now, the next of our own starts a round trip
// later. The caller holds k.mu and runs the result after unlocking.
func (k *Lock) freedAtGate(key string, woke bool, released clock.Instant) func() {
	if woke {
		k.woke = true
		for _, ln := range k.lines {
			if ln.key == key {
				ln.crowd()
			}
		}
	}
	k.unanswered--
	switch {
	case k.unanswered > 0:
		return nothing
	case k.woke && len(k.lines) > 0:
		return func() { time.AfterFunc(k.clock().Since(released), k.leaveLines) }
	default:
		return k.standUp()
	}
}

// heedGates returns what is told the answers of the gates of several keys: nil if the lock has no places. The caller
// holds k.mu.
func (k *Lock) heedGates(released clock.Instant) func(key string, woke bool) {
	if len(k.lines) == 0 {
		return nil
	}
	return func(key string, woke bool) {
		k.mu.Lock()
		then := k.freedAtGate(key, woke, released)
		k.mu.Unlock()
		then()
	}
}

// standUp gives up the places in the lines, once; the caller holds k.mu and runs the result after
// unlocking.
func (k *Lock) standUp() func() {
	lines := k.lines
	k.lines = nil
	if len(lines) == 0 {
		return nothing
	}
	return func() { k.locker.lines.pass(lines) }
}

// standUpAfter gives up the places at the end of the node timeout, which has begun with the release, at the latest: a gate
// that has not answered by then is the gate no more. A gate that has not even made its first contact
// gets no longer than the quorum took once more.
func (k *Lock) standUpAfter(took, timeout time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lines) == 0 {
		return
	}
	limit := timeout - took
	for _, ln := range k.lines {
		if !k.nodes[k.gate(ln.key, k.clock())].isIntroduced() {
			limit = min(limit, took)
		}
	}
	time.AfterFunc(limit, k.leaveLines)
}

func (k *Lock) leaveLines() {
	k.mu.Lock()
	then := k.standUp()
	k.mu.Unlock()
	then()
}
