package sim

import (
	"slices"
	"time"
)

const defaultNodeTimeout = 200 * time.Millisecond

func (p plan) timeout() time.Duration {
	if p.nodeTimeout > 0 {
		return p.nodeTimeout
	}
	return defaultNodeTimeout
}

// probeMax is the longest time between two of the library's probes of a node that is down.
const probeMax = 2 * time.Second

// largestTTL is the longest life that any locker asks for.
func (p plan) largestTTL() time.Duration { return max(2*p.ttl, p.longTTL) }

// window is how long the restart guard withholds votes, by the locker's clock.
func (p plan) window() time.Duration { return p.largestTTL()*102/100 + 4*time.Millisecond }

// clientTimeout is how long a client of the Redis library waits for an answer.
func (p plan) clientTimeout() time.Duration { return max(1, time.Duration(p.lazy)) * p.timeout() }

// settling is how long a node may still hold what was undone or released, once everything
// works again:
//
//	client timeout  a command sent just before has to fail
//	probeMax        until the worker asks the node again
//	client timeout  which may meet a connection that broke long ago
//	probeMax        until it asks once more
//	2 node timeout  for the answer, and for the releases that follow it
//	2 node timeout  until they are repeated, since what hung may have come after them
//	node timeout    for these to arrive
//
// To this a hang, a cut or an outage adds its own length, so the clock of this bound starts
// when the last of them is over. A single message that the network keeps for longer than two
// node timeouts, while other connections work, is beyond it: what it stores may live out its
// ttl, and is excused if it came more than a node timeout after the release.
//
// A locker plans all this by its clock.
func (p plan) settling() time.Duration {
	return stretched(2*probeMax+2*p.clientTimeout()+5*p.timeout(), p.lag())
}

// lag is the rate of the slowest locker's clock, in ppm.
func (p plan) lag() int { return slices.Min(p.lags) }

// longest is more than any run takes.
func (p plan) longest() time.Duration {
	return time.Duration(p.operations) * (20*max(p.ttl, p.longTTL) + 10*time.Second)
}

// forgets reports whether a node may lose its data in a restart. With GuardAuto that of one alone may not: it is
// a new deployment each time to a Locker that is new.
func (p plan) forgets(node int, s Settings) bool {
	if p.unguarded {
		return s.Amnesia && node >= p.nodes-p.forgetful
	}
	return s.Amnesia && (p.strict || p.nodes > 1)
}

// spaced reports whether no two nodes may start at about the same time. GuardAuto takes those that do for a new
// deployment, where nothing can have been forgotten: a power cut is for GuardStrict.
func (p plan) spaced(s Settings) bool { return s.Amnesia && !p.strict && !p.unguarded }

// gap is how long after another a node may then start:
//
//	3 s or 5 s           are always told apart, with and without server_time_usec
//	4 client timeouts    that the answers of the two may be under way, each behind a dial
//	2 % of the window    by which two nodes' clocks may differ over the age of one that counts as young
func (p plan) gap() time.Duration {
	grain := 5 * time.Second
	if p.modern {
		grain = 3 * time.Second
	}
	return grain + 4*p.clientTimeout() + p.window()*2/100
}
