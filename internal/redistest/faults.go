package redistest

import (
	"fmt"
	"strings"
	"time"
)

// direction is one of the two ways through a proxy.
type direction int

const (
	request direction = iota
	reply
)

// faults is what a proxy does wrong at present. The zero value is a proxy without fault.
type faults struct {
	delay  [2]time.Duration // by direction
	hang   bool
	refuse bool
	drop   bool
	before shots
	after  shots
}

// shots is how often a fault is still to strike.
type shots struct {
	left   int
	always bool
}

func (s *shots) take() bool {
	if s.left > 0 {
		s.left--
		return true
	}
	return s.always
}

func (s *shots) String() string {
	switch {
	case s.always:
		return "each"
	case s.left == 1:
		return "the next"
	default:
		return fmt.Sprintf("the next %d", s.left)
	}
}

func (f *faults) String() string {
	var names []string
	add := func(on bool, format string, args ...any) {
		if on {
			names = append(names, fmt.Sprintf(format, args...))
		}
	}
	add(f.delay != [2]time.Duration{}, "delays requests by %v and replies by %v", f.delay[request], f.delay[reply])
	add(f.hang, "hangs")
	add(f.refuse, "refuses connections")
	add(f.drop, "drops replies")
	add(f.before != shots{}, "cuts before %v request", &f.before)
	add(f.after != shots{}, "cuts after %v request", &f.after)
	if len(names) == 0 {
		return "no fault"
	}
	return strings.Join(names, ", ")
}

// Delay holds back every byte for the given time in each direction, those under way included. No more than
// 32 pieces of at most 4 KiB are under way per connection and direction; what comes beyond waits longer.
func (p *Proxy) Delay(requests, replies time.Duration) {
	p.change(fmt.Sprintf("delay requests by %v, replies by %v", requests, replies), func(f *faults) {
		f.delay = [2]time.Duration{request: requests, reply: replies}
	})
}

// Hang stops both directions: connections are accepted and stay open, as with a server that is stopped, and
// what is sent is kept, the end of a connection too.
func (p *Proxy) Hang() { p.change("hang", func(f *faults) { f.hang = true }) }

// Resume ends a Hang, and no other fault. What was kept flows on, from connections that the client has
// closed meanwhile too, as it would out of the kernel's buffers.
func (p *Proxy) Resume() { p.change("resume", func(f *faults) { f.hang = false }) }

// CutBefore makes the next request on any connection cut that connection before a byte of it reaches the
// server. Called again before that, it adds one more. The requests of a client's handshake count as well.
func (p *Proxy) CutBefore() {
	p.change("cut before the next request", func(f *faults) { f.before.left++ })
}

// CutEachBefore is CutBefore for every request until Heal.
func (p *Proxy) CutEachBefore() {
	p.change("cut before each request", func(f *faults) { f.before.always = true })
}

// CutAfter makes the next request on any connection cut that connection once the server has executed it,
// with what else came in the same piece of a pipeline, and before a byte of its reply reaches the client.
// Called again before that, it adds one more. The requests of a client's handshake count as well.
func (p *Proxy) CutAfter() {
	p.change("cut after the next request", func(f *faults) { f.after.left++ })
}

// CutEachAfter is CutAfter for every request until Heal.
func (p *Proxy) CutEachAfter() {
	p.change("cut after each request", func(f *faults) { f.after.always = true })
}

// DropReplies lets requests through and throws replies away. A connection that missed a reply carries none
// ever after, since a stream cannot go on behind a gap.
func (p *Proxy) DropReplies() { p.change("drop replies", func(f *faults) { f.drop = true }) }

// Refuse resets new connections at once; those that exist live on.
func (p *Proxy) Refuse() { p.change("refuse connections", func(f *faults) { f.refuse = true }) }

// Heal ends all faults. It closes the connections that cannot go on as if there had been none: those that missed
// a reply and those with a cut under way.
func (p *Proxy) Heal() {
	p.change("heal", func(f *faults) { *f = faults{} })
	for _, l := range p.open() {
		if l.ledger.spoilt() {
			l.close()
		}
	}
}
