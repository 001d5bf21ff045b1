package redlock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one command of a round, or one debt, or one question, on its way to one node.
type call struct {
	round *round // nil for the others
	index int
	skip  bool  // not to be sent; set before the round is launched
	vote  vote  // guarded by the round's claim.mu, as is err
	err   error // why not, for a vote other than granted

	debt *debt
	ask  *question
}

// question is a command that has no part in a vote.
type question struct {
	args []any
	heed func(reply any, err error) // called once by the worker, or by submit's caller if that fails
}

func (c *call) op() *operation {
	switch {
	case c.ask != nil:
		return questionOp
	case c.round == nil:
		return releaseOp
	case c.round.entry != nil && c.round.isGate(c.index):
		return acquireAllOp
	}
	return c.round.op
}

func (c *call) args() []any {
	switch {
	case c.ask != nil:
		return c.ask.args
	case c.round.entry != nil && c.round.isGate(c.index):
		return c.round.entry.args
	}
	return c.round.args
}

// wanted reports whether a call that is no release should be sent.
func (c *call) wanted() bool { return c.ask != nil || c.round.take(c.index) }

// target returns the key and the token of a release.
func (c *call) target() (key, token any) {
	if c.debt != nil {
		return c.debt.key, c.debt.token
	}
	return c.round.claim.keys[0], c.round.claim.token
}

// isWide reports whether a call concerns several keys: its release travels alone.
func (c *call) isWide() bool { return c.width() > 1 }

// width is how many keys a call concerns.
func (c *call) width() int {
	if c.round == nil {
		return 1
	}
	return len(c.round.claim.keys)
}

// atGate reports whether a release also concerns the waiting list of its key.
func (c *call) atGate() bool {
	if c.debt != nil {
		return c.debt.listed
	}
	return c.round.isGate(c.index)
}

// channel returns what a release takes off the waiting list, "" for nothing.
func (c *call) channel() string {
	if c.debt != nil {
		return c.debt.channel
	}
	return c.round.parting.leaves()
}

// plan turns the batch into commands: the releases first, all of single keys in one, then the others that
// are still wanted. Releases may overtake the other calls: a token whose release is queued has
// ended, so what would have set it is dropped here, and other tokens only gain by it. Those that
// wake who waits come last: an undo before them may have freed the key.
func (n *node) plan() {
	n.releases, n.waking, n.wide, n.commands = n.releases[:0], n.waking[:0], n.wide[:0], n.commands[:0]
	for _, c := range n.batch {
		switch {
		case c.op() != releaseOp:
		case c.isWide():
			n.wide = append(n.wide, c)
		case c.atGate():
			n.waking = append(n.waking, c)
		default:
			n.releases = append(n.releases, c)
		}
	}
	n.releases = append(n.releases, n.waking...)
	for i, c := range n.wide {
		args := releaseAllArgs(c.round.claim.keys, c.round.claim.token)
		n.commands = append(n.commands, command{calls: n.wide[i : i+1], args: args})
	}
	if n.single {
		n.separate()
	} else if len(n.releases) > 0 {
		var room []any
		if n.own { // nobody else has kept the list of the last batch
			room = n.together
		}
		n.together = releaseArgs(room, n.releases)
		n.commands = append(n.commands, command{calls: n.releases, args: n.together})
	}
	for i, c := range n.batch {
		if c.op() != releaseOp && c.wanted() {
			n.commands = append(n.commands, command{calls: n.batch[i : i+1], args: c.args()})
		}
	}
}

// separate makes a command of each release.
func (n *node) separate() {
	for i := range n.releases {
		one := n.releases[i : i+1]
		n.commands = append(n.commands, command{calls: one, args: releaseArgs(nil, one)})
	}
}

// send carries the commands in one round trip; in a second one what needs it: commands whose
// script the node has lost, and releases that it does not take together.
func (n *node) send() error {
	if len(n.commands) == 0 {
		return nil
	}
	execErr := n.exchange(n.load(n.commands)...)
	if m := len(n.wide); m < len(n.commands) && len(n.commands[m].calls) > 1 && refusedTogether(n.commands[m].Err()) {
		n.single = true
		n.commands = slices.Delete(n.commands, m, m+1)
		others := len(n.commands)
		n.separate()
		if err := n.exchange(fresh(n.commands[others:])...); err != nil {
			execErr = err
		}
	}
	if unknown := unknownScripts(n.commands); len(unknown) > 0 {
		if err := n.exchange(append(loadCommands(), unknown...)...); err != nil {
			execErr = err // the one that matters to commands that now have no reply
		}
	}
	return execErr
}

// slots are commands of the client library with their arguments, used again in every batch: most
// of what a worker would allocate. There are some for each number of arguments, which a command
// cannot change.
type slots struct {
	commands [slotArgs + 1][]*redis.Cmd
	used     [slotArgs + 1]int
}

// slotArgs is the number of arguments of the longest command that comes in many: an acquire with a fence.
const slotArgs = 13

// next returns a command with these arguments, and nothing of what it was before.
func (s *slots) next(args []any) *redis.Cmd {
	n := len(args)
	if n > slotArgs {
		return redis.NewCmd(context.Background(), args...)
	}
	if s.used[n] == len(s.commands[n]) {
		s.commands[n] = append(s.commands[n], redis.NewCmd(context.Background(), make([]any, n)...))
	}
	cmd := s.commands[n][s.used[n]]
	s.used[n]++
	copy(cmd.Args(), args)
	cmd.SetVal(nil)
	cmd.SetErr(nil)
	return cmd
}

// load gives the commands what the client library sends and fills: for our own clients, whose
// commands nobody keeps, from slots.
func (n *node) load(commands []command) []redis.Cmder {
	if !n.own {
		return fresh(commands)
	}
	n.wire, n.slots.used = n.wire[:0], [slotArgs + 1]int{}
	for i := range commands {
		c := &commands[i]
		c.Cmd = n.slots.next(c.args)
		n.wire = append(n.wire, c)
	}
	return n.wire
}

// fresh is load without slots.
func fresh(commands []command) []redis.Cmder {
	wire := make([]redis.Cmder, len(commands))
	for i := range commands {
		commands[i].Cmd = redis.NewCmd(context.Background(), commands[i].args...)
		wire[i] = &commands[i]
	}
	return wire
}

// unknownScripts returns, fresh, the commands whose script the node does not have.
func unknownScripts(commands []command) (unknown []redis.Cmder) {
	for i := range commands {
		if err := commands[i].Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, fresh(commands[i:i+1])...)
		}
	}
	return unknown
}

// refusedTogether reports whether a server may have refused several keys for being several:
// because they belong to different slots, or because the right to one of them is missing.
func refusedTogether(err error) bool {
	return err != nil && isReply(err) && (redis.HasErrorPrefix(err, "CROSSSLOT") ||
		redis.HasErrorPrefix(err, "NOPERM") || strings.HasPrefix(err.Error(), "ERR "))
}

// faultIn returns why the batch did not reach the node, nil if it did.
func (n *node) faultIn(execErr error) error {
	for i := range n.commands {
		if _, err := n.commands[i].reply(execErr); err != nil && !isReply(err) {
			return explain(err)
		}
	}
	return nil
}

// deadline is a context that has one and never ends, for clients that turn it into the
// deadline of a connection: a timer for each batch would cost more than the rest of it.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

// exchange sends commands as one pipeline and waits for all replies: no longer than the node
// timeout with the clients that Open makes, as long as their settings say with those given
// to New. The callers of the rounds do not wait for it.
func (n *node) exchange(commands ...redis.Cmder) error {
	var ctx context.Context = deadline{context.Background(), time.Now().Add(n.timeout)}
	if !n.own { // their clients may look at nothing but Done
		limited, cancel := context.WithTimeout(ctx, n.timeout)
		defer cancel()
		ctx = limited
	}
	pipe := n.client.Pipeline()
	_ = pipe.BatchProcess(ctx, commands...) // only queues
	_, err := pipe.Exec(ctx)
	return err
}
