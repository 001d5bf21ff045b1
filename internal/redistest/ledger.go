package redistest

import (
	"sync"

	"github.com/redlock-go/redlock/internal/wire"
)

// cut says when a connection is to be cut that is about to pass on a request.
type cut int

const (
	noCut cut = iota
	cutBefore
	cutAfter
)

// ledger keeps the account of one proxied connection: which requests have gone to the server, which of them it
// has answered, and whether the client still sees all that was said. It decides what passes and moves no
// bytes itself. The zero value is ready; safe for concurrent use.
//
// A cut after a request waits for all replies due, since a pipeline's first reply does not say that the
// rest was executed; and it lets no further request through, or that wait might never end.
type ledger struct {
	mu       sync.Mutex
	requests wire.Scanner
	replies  wire.Scanner
	sent     int  // requests passed on
	answered int  // replies received
	cutting  bool // to be cut after a request
	cutFrom  int  // the first reply withheld for that
	sealed   bool // no request passes any more
	torn     bool // a part of the replies was lost on the way: nothing that follows may pass
}

// request accounts for a piece of requests and returns as much of it as may pass; doomed means that the
// connection is to be cut right after. Before each request it asks nextCut.
func (g *ledger) request(piece []byte, nextCut func() cut) (pass []byte, doomed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := 0; n < len(piece); {
		if g.requests.Idle() && !g.cutting {
			switch nextCut() {
			case cutBefore:
				return piece[:n], true
			case cutAfter:
				g.cutting = true
				g.cutFrom = g.sent
			}
		}
		read, ended := g.requests.Next(piece[n:])
		n += read
		if ended {
			g.sent++
		}
	}
	return piece, false
}

// seal is called when a piece has been passed on. It reports whether no other one may be, and whether
// everything was answered meanwhile, so that the cut is due.
func (g *ledger) seal() (sealed, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = g.cutting && g.requests.Idle()
	return g.sealed, g.due()
}

// reply accounts for a piece of replies and returns as much of it as may pass, and whether the cut is due.
func (g *ledger) reply(piece []byte, dropping func() bool) (pass []byte, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.torn = g.torn || dropping()
	passing := 0
	for n := 0; n < len(piece); {
		g.torn = g.torn || g.cutting && g.answered >= g.cutFrom
		read, ended := g.replies.Next(piece[n:])
		n += read
		if !g.torn {
			passing = n
		}
		// Messages to a subscriber look like replies; they must not answer what is yet to be asked.
		if ended && g.answered < g.sent {
			g.answered++
		}
	}
	return piece[:passing], g.due()
}

func (g *ledger) due() bool { return g.sealed && g.answered >= g.sent }

// spoilt reports whether the connection cannot go on as if nothing had happened.
func (g *ledger) spoilt() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.torn || g.cutting
}
