package node

import (
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"

	"time"
)

// maxDebts bounds the memory of a node that stays down while locks come and go; the oldest
// debts are dropped first, and their keys live out their ttl.
const maxDebts = 1 << 16

// Debt is a release that its node must still get: the fate of a command that set the token
// is unknown, or the release itself did not arrive.
type Debt struct {
	Key, Token any           // strings
	Expires    clock.Instant // the key is gone by then …
	Late       bool          // … unless a cut-off command is still to arrive: then only payment ends the debt
	Listed     bool          // at the gate: a waiter should be woken by the first payment …
	Channel    string        // … and this be taken off the list

	due      clock.Instant // of a repetition
	again    bool          // paid once; this is the repetition
	courtesy bool          // not owed: it is sent once, and nobody minds if it gets lost
}

// payment is a debt on its way.
type payment struct {
	Call
	node *Node
	debt Debt
}

func newPayment(n *Node, d Debt) *Call {
	p := &payment{node: n, debt: d}
	p.Owner, p.Class = p, Release
	return &p.Call
}

func (p *payment) Take(*Call, bool) (wire.Command, bool) {
	return wire.Command{Release: wire.Release{Key: p.debt.Key, Token: p.debt.Token, Listed: p.debt.Listed, Channel: p.debt.Channel}}, true
}

func (p *payment) Keys(*Call) []any { return []any{p.debt.Key} }

func (p *payment) Answer(_ *Call, a Answer) { p.node.settle(p.debt, a.Err == nil) }

// ledger keeps a node's debts. Debts are paid before anything else, and once more after
// two node timeouts, since a hung node may work off its old connections after the new one.
type ledger struct {
	owed    []Debt
	repeats []Debt // ordered by due
	out     int    // debts on their way
}

func (l *ledger) len() int { return len(l.owed) + len(l.repeats) }

func (l *ledger) owe(d Debt) { l.owed = appendBounded(l.owed, d) }

func (l *ledger) repeat(d Debt, due clock.Instant) {
	d.again, d.Listed, d.due = true, false, due
	l.repeats = appendBounded(l.repeats, d)
}

func appendBounded(debts []Debt, d Debt) []Debt {
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

// take removes up to limit debts that are due, and drops expired ones. With all it takes them whatever is due.
func (l *ledger) take(limit int, now clock.Instant, all bool) (taken []Debt) {
	for len(l.owed) > 0 && len(taken) < limit {
		d := l.owed[0]
		l.owed = l.owed[1:]
		if d.Late || !d.Expires.Over(now) {
			taken = append(taken, d)
		}
	}
	for len(l.repeats) > 0 && len(taken) < limit && (all || l.repeats[0].due.Over(now)) {
		taken = append(taken, l.repeats[0])
		l.repeats = l.repeats[1:]
	}
	return taken
}

// settle books a payment that was tried: answered or not.
func (l *ledger) settle(d Debt, answered bool, due clock.Instant) {
	switch {
	case !answered && d.again:
		l.repeat(d, due)
	case !answered:
		l.owe(d)
	case !d.again:
		l.repeat(d, due)
	}
}

// Owe remembers a release that the node must still get.
func (n *Node) Owe(d Debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.owe(d)
	n.rouse()
}

// repeatTimeouts is after how many node timeouts a release is repeated. A connection may be given up for its
// silence after a quarter of one, so what it still carries may come late after the first release.
const repeatTimeouts = 2

// OweAgain repeats a release after two node timeouts: a command that was cut off may arrive
// after the release that was meant to follow it.
func (n *Node) OweAgain(d Debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.repeat(d, n.clock().Add(repeatTimeouts*n.timeout))
	n.rouse()
}

// Withdraw takes a channel off the waiting list of a key, and passes on a wake-up that may have been meant for
// it. It is sent once, and nobody is told what came of it. On the wire it is a release with a token that nobody has.
func (n *Node) Withdraw(key, channel string) {
	d := Debt{Key: key, Token: channel, Listed: true, Channel: channel, courtesy: true}
	_ = n.Submit(newPayment(n, d), n.clock())
}

// settle books the outcome of a debt.
func (n *Node) settle(d Debt, paid bool) {
	if d.courtesy {
		return
	}
	n.mu.Lock()
	n.ledger.out--
	if !(n.stopping && paid) { // when it stops, a payment is the last
		n.ledger.settle(d, paid, n.clock().Add(repeatTimeouts*n.timeout))
	}
	n.rouse()
	n.mu.Unlock()
	if paid && !d.again && n.hooks.Paid != nil {
		n.hooks.Paid(d.Key.(string))
	}
}
