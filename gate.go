package redlock

import (
	"hash/fnv"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// noGate is the gate of a round that does not concern the waiting list.
const noGate = -1

// gate returns the node where the waiters of a key queue: by rendezvous hashing of key and
// address, so that all lockers find the same one without asking, and a node that is down
// moves no keys but its own. Nothing but speed depends on their agreeing.
func (p *panel) gate(key any, now clock.Instant) int {
	h := hashOf(key.(string))
	best, bestScore := noGate, uint64(0)
	for i, n := range p.nodes {
		score := mix(h ^ n.hash)
		if (best == noGate || score > bestScore) && n.Answers(now) {
			best, bestScore = i, score
		}
	}
	if best == noGate { // all are down: the attempt will say so
		return 0
	}
	return best
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// mix spreads every bit over all: the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// isIntroduced reports whether the first contact with the node is over, well or badly.
func (n *node) isIntroduced() bool {
	select {
	case <-n.Introduced():
		return true
	default:
		return false
	}
}

// entry is an attempt's way through the gate: that node is asked first, and the others only if it
// does not refuse, so that of many waiters one takes the key and the others cost a command each.
// The vote stays one of all nodes.
type entry struct {
	list *line
	args []any

	// Guarded by claim.mu until the round is decided.
	answered bool
	answer   answer        // of the gate
	passed   clock.Instant // when the others were asked
}

// parting is what a release does beside releasing: it takes a channel off the list, if it is not "", and
// tells the gate's answer, as settle is told the verdict.
type parting struct {
	channel string
	freed   func(answer) func()
}

func (p *parting) leaves() string {
	if p == nil {
		return ""
	}
	return p.channel
}

// atGate takes the gate's answer; the caller holds claim.mu and runs the result after unlocking. A
// gate that fails in whatever way is no reason not to ask the others.
func (r *round) atGate(a answer) func() {
	e := r.entry
	switch {
	case r.parting != nil:
		return r.parting.freed(a)
	case e == nil || r.verdict != pending || r.launched:
		return nothing
	}
	e.answered, e.answer, e.passed = true, a, r.claim.clock()
	if a.vote == refused {
		return r.decide(lost, nil)
	}
	return r.launchAll
}

func (e *entry) wasRefused() bool { return e != nil && e.answered && e.answer.vote == refused }

// extension is what is left of a timeout that began when the others were asked.
func (e *entry) extension(timeout time.Duration, now clock.Instant) time.Duration {
	if e == nil || !e.answered {
		return 0
	}
	return timeout - now.Since(e.passed)
}
