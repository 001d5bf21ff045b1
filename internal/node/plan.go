package node

import (
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

const (
	maxChunk = 512     // calls that are made into commands at a time, and releases in one command
	maxBytes = 1 << 20 // of one write, about
)

// slot is a call whose command has been sent, or is about to be.
type slot struct {
	call  *Call
	sent  time.Duration
	more  int32 // so many of the next slots share its command
	batch int32 // of the last slot of a batch: how many calls it had, -1 for none but the node's own
}

// plan is a batch as commands: the releases first, all of single keys in one, then the others that
// are still wanted. Releases may overtake the other calls: a token whose release is queued has
// ended, so what would have set it is dropped, and other tokens only gain by it. Those that
// wake waiters come last: an undo before them may have freed the key.
type plan struct {
	releases []wire.Release
	waking   []wire.Release // those of them that concern waiting lists
	freeing  []*Call        // the calls of releases, and then of waking
	wakers   []*Call
	wide     []wire.Command // releases of several keys: first of all, for the wake-ups behind them
	widely   []*Call
	cmds     []wire.Command // of the others
	calls    []*Call
}

// make fills the plan from calls, of which those that nobody wants any more are dropped.
func (p *plan) make(calls []*Call) {
	p.releases, p.waking, p.freeing, p.wakers = p.releases[:0], p.waking[:0], p.freeing[:0], p.wakers[:0]
	p.cmds, p.calls, p.wide, p.widely = p.cmds[:0], p.calls[:0], p.wide[:0], p.widely[:0]
	for _, c := range calls {
		cmd, wanted := c.Owner.Take(c, c.again)
		switch {
		case !wanted && c.again:
			c.fail(errBroken)
		case !wanted:
		case cmd.Args != nil && c.Class == Release:
			p.wide, p.widely = append(p.wide, cmd), append(p.widely, c)
		case cmd.Args != nil:
			p.cmds, p.calls = append(p.cmds, cmd), append(p.calls, c)
		case cmd.Release.Listed:
			p.waking, p.wakers = append(p.waking, cmd.Release), append(p.wakers, c)
		default:
			p.releases, p.freeing = append(p.releases, cmd.Release), append(p.freeing, c)
		}
	}
	p.releases, p.freeing = append(p.releases, p.waking...), append(p.freeing, p.wakers...)
}

// clear forgets the calls, which would otherwise be kept until the next batch.
func (p *plan) clear() {
	clear(p.releases)
	clear(p.waking)
	clear(p.freeing)
	clear(p.wakers)
	clear(p.wide)
	clear(p.widely)
	clear(p.cmds)
	clear(p.calls)
}

// encode appends the commands to b and their calls to slots.
func (p *plan) encode(b []byte, slots []slot, n *Node, single bool) ([]byte, []slot) {
	for i, c := range p.widely {
		b = wire.AppendCommand(b, p.wide[i].Args)
		slots = append(slots, slot{call: c})
	}
	if single {
		for i, c := range p.freeing {
			b = wire.AppendReleases(b, n.release, p.releases[i:i+1])
			slots = append(slots, slot{call: c})
		}
	} else if len(p.freeing) > 0 {
		b = wire.AppendReleases(b, n.release, p.releases)
		first := len(slots)
		for _, c := range p.freeing {
			slots = append(slots, slot{call: c})
		}
		slots[first].more = int32(len(p.freeing) - 1)
	}
	for i, c := range p.calls {
		b = wire.AppendCommand(b, p.cmds[i].Args)
		slots = append(slots, slot{call: c})
	}
	return b, slots
}
