package redlock

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// operation is one kind of command and the strict reading of its reply.
type operation struct {
	name    string
	sets    bool  // may put the token on a node
	deletes bool  // takes it away
	heals   bool  // may give the token back to a node that lost it, which is then no grant
	blocked error // class of the error when refusals alone keep the quorum out of reach
	read    func(reply wire.Value, keys int) wire.Result
}

// answer is what a call came to.
type answer struct {
	vote       vote
	place      place // where the token stands on that node now
	err        error // nil only for a grant
	unsent     bool  // the command never left: place says nothing
	unanswered bool  // nothing came back: the command may have run, or run later
	twice      bool  // it was sent twice: this is about the second copy, and the first may have run, or run later

	timed bool          // a renewal, or a refusal at the gate, found the key with an expiry …
	left  time.Duration // … that far away

	woke    bool   // a release woke somebody who waits
	since   int64  // when the line entered the gate's list, in µs by the node's clock; 0: it is not there
	blocked int    // index of the first key that is not free …
	holder  string // … and the token there, "" if it is not known
	fence   int64  // the number of a grant
}

func unsent(err error) answer { return answer{vote: failed, err: err, unsent: true} }

var (
	acquireOp    = &operation{name: "acquire", sets: true, blocked: ErrHeld, read: func(v wire.Value, _ int) wire.Result { return wire.ReadSet(v) }}
	acquireAllOp = &operation{name: "acquire", sets: true, blocked: ErrHeld, read: wire.ReadAcquire} // by script
	fenceOp      = &operation{name: "acquire", sets: true, heals: true, blocked: ErrHeld, read: readRenewal}
	renewOp      = &operation{name: "renew", sets: true, heals: true, blocked: ErrLost, read: readRenewal}
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

func readRenewal(v wire.Value, _ int) wire.Result { return wire.ReadRenewal(v) }

// readRelease reads the release of one key; or of several, of which a lock stood on the node if it had all of them.
func readRelease(v wire.Value, keys int) wire.Result {
	if keys == 1 {
		return wire.ReadRelease(v)
	}
	each, ok := wire.SplitReleases(v, keys)
	if !ok {
		return wire.Result{}
	}
	var worst wire.Result
	for i, e := range each {
		r := wire.ReadRelease(e)
		if i == 0 || r.Outcome != wire.Done {
			worst = r
		}
		if r.Outcome == wire.Unknown {
			break
		}
	}
	return worst
}

// answered reads the reply to a command about so many keys.
func (op *operation) answered(v wire.Value, keys int) answer {
	if err := v.Err(); err != nil {
		return answer{vote: failed, place: maybe, err: explain(err)}
	}
	r := op.read(v, keys)
	a := answer{timed: r.Timed, left: r.Left, woke: r.Woke, since: r.Since, blocked: r.Blocked, holder: r.Holder, fence: r.Fence}
	switch r.Outcome {
	case wire.Done:
		a.vote, a.place = granted, present
		if op.deletes {
			a.place = absent
		}
	case wire.Healed:
		a.vote, a.place, a.err = refused, present, errHealed
	case wire.Missing:
		a.vote, a.place, a.err = refused, absent, errMissing
	case wire.OtherToken:
		a.vote, a.place, a.err = refused, absent, errOtherToken
	default:
		return unexpected(op, v)
	}
	if keys > 1 && a.vote == refused && r.Outcome != wire.Healed && op != acquireAllOp && !op.deletes {
		a.place = maybe // under the other keys
	}
	return a
}

// unexpected is the answer of a node that says what we do not know, or of a script that passes
// on an error's text.
func unexpected(op *operation, v wire.Value) answer {
	text := v.String()
	err := fmt.Errorf("unexpected reply %.100q to %s", text, op.name)
	return answer{vote: failed, place: maybe, err: wire.Advised(err, text)}
}

// isReply reports whether err came from the node as the answer to the command.
func isReply(err error) bool { return wire.IsReply(err) }

// explain adds to a node's error what to do about it, and takes deadlines of the worker out
// of the chain: they are not the caller's.
func explain(err error) error { return wire.Explain(err) }

func acquireArgs(key, token any, ttl time.Duration) []any { return wire.SetArgs(key, token, ttl) }

// renewArgs is what renews a lock with a fence, or none where that is ""; who only resumes it, heals not.
func renewArgs(keys []any, token any, ttl time.Duration, heals bool, fence string, life time.Duration) []any {
	return wire.RenewArgs(renewScript, keys, token, ttl, heals, fence, life)
}

// acquireAllArgs takes several keys, or proposes a fence, or goes through the gate of a key.
func acquireAllArgs(keys []any, token any, ttl time.Duration, proposal string, life time.Duration, at wire.Listing) []any {
	return wire.AcquireArgs(acquireScript, keys, token, ttl, proposal, life, at)
}

func releaseAllArgs(keys []any, token any) []any {
	return wire.ReleaseAllArgs(releaseScript, keys, token)
}

// listName is where the waiting list of a key stands.
func listName(key string) string { return wire.ListName(key) }

// fenceName is where the latest fence of a key stands.
func fenceName(key string) string { return wire.FenceName(key) }
