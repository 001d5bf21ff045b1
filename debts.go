package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// maxDebts bounds the memory of a node that stays down while locks come and go; the oldest
// debts are dropped first, and their keys live out their ttl.
const maxDebts = 1 << 16

// debt is a release that its node must still get: the fate of a command that set the token
// is unknown, or the release itself did not arrive.
type debt struct {
	key      any
	token    any
	expires  clock.Instant // the key is gone by then …
	late     bool          // … unless a cut-off command is still to arrive: then only payment ends the debt
	listed   bool          // at the gate: who waits should be woken by the first payment …
	channel  string        // … and this be taken off the list
	due      clock.Instant // of a repetition
	again    bool          // paid once; this is the repetition
	courtesy bool          // not owed: it is sent once, and nobody minds if it gets lost
}

// leaving takes a channel off the waiting list of a key, and passes on a wake-up that may have been meant
// for it. On the wire it is a release with a token that nobody has.
func leaving(key, channel string) *debt {
	return &debt{key: key, token: channel, listed: true, channel: channel, courtesy: true}
}

// ledger keeps a node's debts. Debts are paid before anything else, and once more after a
// node timeout, since a hung node may work off its old connections after the new one.
type ledger struct {
	owed    []debt
	repeats []debt // ordered by due
}

func (l *ledger) len() int { return len(l.owed) + len(l.repeats) }

func (l *ledger) owe(d debt) { l.owed = appendBounded(l.owed, d) }

func (l *ledger) repeat(d debt, due clock.Instant) {
	d.again, d.listed, d.due = true, false, due
	l.repeats = appendBounded(l.repeats, d)
}

func appendBounded(debts []debt, d debt) []debt {
	if len(debts) >= maxDebts {
		debts = debts[1:]
	}
	return append(debts, d)
}

// nextDue returns the time until the next debt can be paid, if there is one.
func (l *ledger) nextDue(now clock.Instant) (time.Duration, bool) {
	switch {
	case len(l.owed) > 0:
		return 0, true
	case len(l.repeats) > 0:
		return l.repeats[0].due.Left(now), true
	}
	return 0, false
}

// take moves up to limit debts that are due into batch, and drops expired ones.
func (l *ledger) take(batch []*call, now clock.Instant, limit int) []*call {
	for len(l.owed) > 0 && len(batch) < limit {
		d := l.owed[0]
		l.owed = l.owed[1:]
		if d.late || !d.expires.Over(now) {
			batch = append(batch, &call{debt: &d})
		}
	}
	for len(l.repeats) > 0 && len(batch) < limit && l.repeats[0].due.Over(now) {
		d := l.repeats[0]
		l.repeats = l.repeats[1:]
		batch = append(batch, &call{debt: &d})
	}
	return batch
}

// takeAll empties the ledger into batch, whatever is due.
func (l *ledger) takeAll(batch []*call) []*call {
	for _, debts := range [][]debt{l.owed, l.repeats} {
		for i := range debts {
			batch = append(batch, &call{debt: &debts[i]})
		}
	}
	*l = ledger{}
	return batch
}

// settle books a payment that was tried: answered or not.
func (l *ledger) settle(d debt, answered bool, due clock.Instant) {
	switch {
	case !answered && d.again:
		l.repeat(d, due)
	case !answered:
		l.owe(d)
	case !d.again:
		l.repeat(d, due)
	}
}
