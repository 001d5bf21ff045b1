package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// operation is one kind of command and the strict reading of its reply.
type operation struct {
	name    string
	sets    bool                                     // may put the token on a node
	deletes bool                                     // takes it away
	blocked error                                    // class of the error when refusals alone keep the quorum out of reach
	read    func(reply any, keys int) (answer, bool) // of a call for so many keys
}

// answer is what a call came to.
type answer struct {
	vote       vote
	place      place // where the token stands on that node now
	err        error // nil only for a grant
	unsent     bool  // the command never left: place says nothing
	unanswered bool  // nothing came back: the command may have run, or run later

	timed bool          // a renewal, or who was refused at the gate, found the key with an expiry …
	left  time.Duration // … that far away

	woke    bool   // a release woke somebody who waits
	since   int64  // when the line entered the gate's list, in µs by the node's clock; 0: it is not there
	blocked int    // index of the first key that is not free …
	holder  string // … and the token there, "" if it is not known
	fence   int64  // the number of a grant
}

func unsent(err error) answer { return answer{vote: failed, err: err, unsent: true} }

var (
	acquireOp = &operation{name: "acquire", sets: true, blocked: ErrHeld, read: func(reply any, _ int) (answer, bool) {
		switch reply {
		case "OK":
			return answer{vote: granted, place: present}, true
		case nil:
			return answer{vote: refused, place: absent, err: errOtherToken}, true
		}
		return answer{}, false
	}}
	acquireAllOp = &operation{name: "acquire", sets: true, blocked: ErrHeld, read: readAcquireAll} // by script
	fenceOp      = &operation{name: "acquire", sets: true, blocked: ErrHeld, read: readRenewal}
	renewOp      = &operation{name: "renew", sets: true, blocked: ErrLost, read: readRenewal}
	resumeOp     = &operation{name: "resume", blocked: ErrLost, read: readRenewal}
	releaseOp    = &operation{name: "release", deletes: true, blocked: ErrLost, read: readRelease}
)

// questionOp stands for commands that have no part in a vote.
var questionOp = &operation{name: "inspect"}

// acquires reports whether a grant of the operation is a vote that a restarted node must not cast.
func (op *operation) acquires() bool { return op == acquireOp || op == acquireAllOp }

// shortens reports whether the command may leave a key with less life than it had: all that set the
// ttl of a key, but not those that only store a key that is missing.
func (op *operation) shortens() bool { return !op.acquires() && !op.deletes }

func readAcquireAll(reply any, keys int) (answer, bool) {
	list, _ := reply.([]any)
	numbers := integers(list)
	switch {
	case len(list) == 3 && len(numbers) == 2 && numbers[0] == 1 && isFence(numbers[1]):
		if since, ok := sinceOf(list[2]); ok {
			return answer{vote: granted, place: present, fence: numbers[1], since: since}, true
		}
	case len(list) == 5 && len(numbers) == 3 && numbers[0] == 0 && numbers[1] > 0 && numbers[1] <= int64(keys) && numbers[2] >= ttlGone:
		since, ok := sinceOf(list[3])
		if holder, isText := list[4].(string); ok && isText {
			return answer{
				vote: refused, place: absent, err: errOtherToken, since: since, holder: holder,
				blocked: int(numbers[1] - 1), left: millis(numbers[2]), timed: numbers[2] >= 0,
			}, true
		}
	}
	return answer{}, false
}

// ttlGone is what PTTL tells of a key that is missing; -1 of one without expiry. It tells nothing less.
const ttlGone = -2

// millis is a number of milliseconds that a node told. It is 146 years at most, so that sums of two do not
// overflow, and 0 for a PTTL that is no time.
func millis(n int64) time.Duration {
	const most = (1 << 62) / int64(time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

func isFence(n int64) bool { return n >= 0 && n <= maxFence }

// integers returns the integers that a list begins with.
func integers(list []any) (numbers []int64) {
	for _, e := range list {
		i, ok := e.(int64)
		if !ok {
			break
		}
		numbers = append(numbers, i)
	}
	return numbers
}

// sinceOf reads when somebody entered a waiting list; "" if nobody did.
func sinceOf(e any) (since int64, ok bool) {
	text, ok := e.(string)
	if text == "" {
		return 0, ok
	}
	return whole(text)
}

// whole reads a number as scripts write them: digits alone.
func whole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

func readRelease(reply any, _ int) (answer, bool) {
	code, ok := reply.(int64)
	woke := code >= 4
	if woke {
		code -= 4
	}
	switch {
	case ok && code == 1:
		return answer{vote: granted, place: absent, woke: woke}, true
	case ok && code == 2:
		return answer{vote: refused, place: absent, err: errMissing, woke: woke}, true
	case ok && code == 0 && !woke:
		return answer{vote: refused, place: absent, err: errOtherToken}, true
	}
	return answer{}, false
}

func readRenewal(reply any, _ int) (answer, bool) {
	list, _ := reply.([]any)
	numbers := integers(list)
	if len(numbers) != len(list) {
		return answer{}, false
	}
	switch {
	case len(numbers) == 3 && numbers[0] == 1 && numbers[1] >= ttlGone && isFence(numbers[2]):
		return answer{vote: granted, place: present, left: millis(numbers[1]), timed: numbers[1] >= 0, fence: numbers[2]}, true
	case len(numbers) == 1 && numbers[0] == 2:
		return answer{vote: refused, place: present, err: errHealed}, true
	case len(numbers) == 1 && numbers[0] == 3:
		return answer{vote: refused, place: absent, err: errMissing}, true
	case len(numbers) == 1 && numbers[0] == 0:
		return answer{vote: refused, place: absent, err: errOtherToken}, true
	}
	return answer{}, false
}

func acquireArgs(key, token any, ttl time.Duration) []any {
	return []any{"set", key, token, "nx", "px", ttl.Milliseconds()}
}

// renewArgs is what renews a lock with a fence, or none where that is 0; who only resumes it, heals not.
func renewArgs(keys []any, token any, ttl time.Duration, heals bool, fence string, life time.Duration) []any {
	heal := ""
	if heals {
		heal = "1"
	}
	args := scriptArgs(renewScript, keys, fence != "", 5)
	return append(args, token, ttl.Milliseconds(), heal, fence, life.Milliseconds())
}

// listLife is how long a waiting list lives: who crashed leaves no longer trace than this, and who
// still waits enters again within a back-off step.
const listLife = 30 * time.Second

// listing is a place in a waiting list.
type listing struct {
	name, channel string
	since         int64 // 0: now
}

// acquireAllArgs takes several keys, or proposes a fence, or goes through the gate of a key.
func acquireAllArgs(keys []any, token any, ttl time.Duration, proposal string, life time.Duration, at listing) []any {
	args := scriptArgs(acquireScript, keys, proposal != "", 8)
	args = append(args, token, ttl.Milliseconds(), proposal, life.Milliseconds())
	if at.name == "" {
		return args
	}
	first := ""
	if at.since > 0 {
		first = strconv.FormatInt(at.since, 10)
	}
	return append(args, at.name, at.channel, first, listLife.Milliseconds())
}

// scriptArgs begins the call of a script over the keys of one lock, and their numbers, with room for more.
func scriptArgs(s luaScript, keys []any, fenced bool, more int) []any {
	n := len(keys)
	if fenced {
		n *= 2
	}
	args := make([]any, 0, 3+n+more)
	args = append(append(args, "evalsha", s.sha, n), keys...)
	if fenced {
		for _, key := range keys {
			args = append(args, fenceName(key.(string)))
		}
	}
	return args
}

// releaseAllArgs releases the keys of one lock.
func releaseAllArgs(keys []any, token any) []any {
	args := scriptArgs(releaseScript, keys, false, len(keys))
	for range keys {
		args = append(args, token)
	}
	return args
}

// releaseArgs carries many releases in one command: a script call costs a server about as
// much as the two or three commands inside it. Those that concern a waiting list come last. The list is
// made in room if that suffices.
func releaseArgs(room []any, calls []*call) []any {
	listed := 0
	for _, c := range calls {
		if c.atGate() {
			listed++
		}
	}
	n := len(calls)
	args := slices.Grow(room[:0], 3+2*n+2*listed)[:3+2*n+2*listed]
	args[0], args[1], args[2] = "evalsha", releaseScript.sha, n
	for i, c := range calls {
		args[3+i], args[3+n+i] = c.target()
	}
	lists := args[3+2*n:]
	for i, c := range calls[n-listed:] {
		key, _ := c.target()
		lists[i], lists[listed+i] = listName(key.(string)), c.channel()
	}
	return args
}

// listName is where the waiting list of a key stands.
func listName(key string) string { return beside(key, listSuffix) }

// fenceName is where the latest fence of a key stands.
func fenceName(key string) string { return beside(key, fenceSuffix) }

// What the keys beside a lock end in, and no lock's key may.
const (
	listSuffix  = ":redlock-waiters"
	fenceSuffix = ":redlock-fence"
)

// beside names a key in the cluster slot of another, which the first {tag} in that one decides.
func beside(key, suffix string) string {
	_, after, found := strings.Cut(key, "{")
	if found && strings.Index(after, "}") > 0 {
		return key + suffix
	}
	return "{" + key + "}" + suffix
}

// command is what travels as one Redis command: one call, or several releases.
type command struct {
	*redis.Cmd
	calls []*call
	args  []any
}

// NoRetry keeps the client library from sending a command again after a lost reply: the
// second SET NX would meet the first one's key and read as a refusal by another holder.
func (c *command) NoRetry() bool { return true }

// outcome reads what call i of the command came to, in a pipeline that ended with execErr.
func (c *command) outcome(i int, execErr error) answer {
	reply, err := c.reply(execErr)
	if err != nil {
		return answer{vote: failed, place: maybe, err: explain(err), unanswered: !isReply(err)}
	}
	op := c.calls[i].op()
	if op == releaseOp {
		results, _ := reply.([]any)
		if c.calls[i].isWide() {
			return c.wideOutcome(i, results)
		}
		if len(results) != len(c.calls) {
			return unexpected(op, reply)
		}
		reply = results[i]
	}
	a, ok := op.read(reply, c.calls[i].width())
	switch {
	case !ok:
		return unexpected(op, reply)
	case c.calls[i].isWide() && a.vote == refused && op != acquireAllOp:
		a.place = maybe // under the other keys
	}
	return a
}

// wideOutcome is what the release of several keys came to: a lock stood on this node if it had all of them.
func (c *command) wideOutcome(i int, results []any) (worst answer) {
	if len(results) != len(c.calls[i].round.claim.keys) {
		return unexpected(releaseOp, results)
	}
	for _, result := range results {
		a, ok := releaseOp.read(result, len(results))
		if !ok {
			return unexpected(releaseOp, result)
		}
		if worst.vote == unheard || a.vote != granted {
			worst = a
		}
	}
	return worst
}

// unexpected is the answer of a node that says what we do not know, or of a script that passes
// on an error's text.
func unexpected(op *operation, reply any) answer {
	text := fmt.Sprint(reply)
	err := fmt.Errorf("unexpected reply %.100q to %s", text, op.name)
	return answer{vote: failed, place: maybe, err: advised(err, text)}
}

// reply returns what the node answered; a null reply is nil without error.
func (c *command) reply(execErr error) (any, error) {
	reply, err := c.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	case reply == nil:
		// The client leaves a pipeline's commands without reply and without error when a
		// new connection was refused by the server, for a wrong password for instance.
		if execErr == nil {
			execErr = errors.New("no reply")
		}
		return nil, &unreached{execErr}
	}
	return reply, nil
}

// unreached wraps an error of the server that no command of ours has caused.
type unreached struct{ err error }

func (u *unreached) Error() string { return fmt.Sprintf("not connected: %v", u.err) }
func (u *unreached) Unwrap() error { return u.err }

// isReply reports whether err came from the node as the answer to the command.
func isReply(err error) bool {
	if _, ok := errors.AsType[*unreached](err); ok {
		return false
	}
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// advice says what to do about replies that a lock can never work with.
var advice = []struct{ prefix, text string }{
	{"READONLY", "this node is a replica: give the address of its primary"},
	{"MOVED", "this node belongs to a cluster: give independent nodes"},
	{"CROSSSLOT", "this node belongs to a cluster: give independent nodes"},
	{"CLUSTERDOWN", "this node belongs to a cluster: give independent nodes"},
	{"NOAUTH", "the node wants a password: put it into the node's URL"},
	{"WRONGPASS", "check user and password in the node's URL"},
	{"NOPERM", "the node's user needs SET, GET, DEL, EXISTS, PTTL, PEXPIRE, EVALSHA, SCRIPT LOAD and INFO, and TIME for fences, on this key and what stands beside it"},
	{"WRONGTYPE", "the key holds something else than a lock"},
	{"FENCEFULL", "set this machine's clock if it is wrong; or else delete {key}:redlock-fence on all nodes, and the number that the guarded resource has stored"},
	{"OOM", "the node is out of memory"},
	{"LOADING", "the node is still loading its data"},
}

// explain adds to a node's error what to do about it, and takes deadlines of the worker out
// of the chain: they are not the caller's.
func explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("timed out")
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return advised(err, strings.TrimPrefix(reply.Error(), "ERR ")) // Kvrocks adds that
	}
	return err
}

func advised(err error, text string) error {
	for _, a := range advice {
		if strings.HasPrefix(text, a.prefix) {
			return fmt.Errorf("%w (%s)", err, a.text)
		}
	}
	return err
}
