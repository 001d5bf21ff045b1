package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Classes of errors, for errors.Is. What each node answered is in the *QuorumError that
// errors.As finds behind all of them that came from a round over the nodes.
var (
	// ErrNotAcquired is the class of every acquire that ended without the lock: ErrHeld,
	// ErrNoQuorum, or a ctx that ended before any node was asked.
	ErrNotAcquired = errors.New("not acquired")

	// ErrHeld means that so many nodes hold another token for the key that no quorum is
	// left: somebody else has the lock, or several callers share the votes just now. Try
	// again later, or wait with Acquire. It is an ErrNotAcquired.
	ErrHeld error = &kind{"the key is held", ErrNotAcquired}

	// ErrNoQuorum means that too many nodes failed, or answered too late, to know. The
	// nodes and their causes are in the error. It is an ErrNotAcquired.
	ErrNoQuorum error = &kind{"no quorum", ErrNotAcquired}

	// ErrLost means that the lock is no longer held, or that this cannot be excluded:
	// its validity ran out, a quorum no longer holds the token, or the locker was closed.
	// The work may overlap with another holder's.
	ErrLost = errors.New("lock lost")

	// ErrReleased means that Release was called before.
	ErrReleased = errors.New("lock released")

	// ErrClosed means that the Locker was closed.
	ErrClosed = errors.New("locker closed")
)

// kind is an error class within a wider class.
type kind struct {
	text  string
	wider error
}

func (k *kind) Error() string { return k.text }
func (k *kind) Unwrap() error { return k.wider }

// errAwaited is the class of an acquire that other callers of the locker were before.
var errAwaited error = &kind{"the key is held or awaited by this process", ErrHeld}

// What a node says or fails to say, beside the errors of the client library.
var (
	errOtherToken = errors.New("holds another token")
	errMissing    = errors.New("did not have the key")
	errHealed     = errors.New("had lost the key; set again")
	errUnheard    = errors.New("not heard before the decision")
)

// QuorumError says how a round over the nodes ended when it did not end well.
type QuorumError struct {
	Op                       string // "acquire", "renew", "release", "resume" or "inspect"
	Keys                     []string
	Quorum                   int           // votes needed
	Granted, Refused, Failed int           // votes counted; nodes not heard before the decision are in none of them
	Elapsed                  time.Duration // since the call began
	TTL                      time.Duration // asked for; 0 for release
	Nodes                    []NodeError   // one per configured node, in their order; Err is nil where it granted

	entry   *entry // of an acquire that went through the gate
	blocked int    // index of the key that was not free
	class   error  // ErrHeld, ErrNoQuorum, ErrLost …
	cause   error  // why the call ended before the votes decided: the ctx error, ErrClosed, …; may be nil
}

// NodeError is the outcome of one node: nil Err means that it granted.
type NodeError struct {
	Node string // host:port, or the position of a client without one address
	Err  error
}

func (e NodeError) Error() string { return fmt.Sprintf("%s: %v", e.Node, e.Err) }
func (e NodeError) Unwrap() error { return e.Err }

// after returns a copy for a call that made several attempts, of which e was the last that knew
// why, and that cause ended if it is not nil.
func (e *QuorumError) after(elapsed time.Duration, cause error) *QuorumError {
	last := *e
	last.Elapsed = elapsed
	if cause != nil {
		last.cause = cause
	}
	return &last
}

// Error names the operation, the keys, the reason and every node that refused or failed.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "redlock: %s %s: ", e.Op, quoted(e.Keys))
	if e.cause != nil {
		fmt.Fprintf(&b, "%v: ", e.cause)
	}
	if e.class != nil && e.class != ErrNotAcquired && e.Granted < e.Quorum { // else the cause has said it
		fmt.Fprintf(&b, "%v: ", e.class)
	}
	if e.Nodes == nil {
		b.WriteString("no node was asked")
		return b.String()
	}
	fmt.Fprintf(&b, "%d of %d needed", e.Granted, e.Quorum)
	if reasons := e.reasons(); reasons != "" {
		fmt.Fprintf(&b, " (%s)", reasons)
	}
	return b.String()
}

// reasons groups the nodes by what they said: "refused: a, b; failed: c: i/o timeout".
func (e *QuorumError) reasons() string {
	var refused, lost, failed []string
	for _, n := range e.Nodes {
		switch n.Err {
		case nil, errUnheard:
		case errOtherToken:
			refused = append(refused, n.Node)
		case errMissing, errHealed:
			lost = append(lost, n.Error())
		default:
			failed = append(failed, n.Error())
		}
	}
	var groups []string
	for _, g := range []struct {
		label string
		nodes []string
	}{{"refused", refused}, {"not holding", lost}, {"failed", failed}} {
		if len(g.nodes) > 0 {
			groups = append(groups, g.label+": "+strings.Join(g.nodes, ", "))
		}
	}
	return strings.Join(groups, "; ")
}

// Unwrap gives errors.Is the class and the cause, not the nodes' errors: a node's timeout
// must not look like the caller's.
func (e *QuorumError) Unwrap() []error {
	var errs []error
	if e.class != nil {
		errs = append(errs, e.class)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}

// quoted lists keys for people: ten at most.
func quoted(keys []string) string {
	const most = 10
	shown := keys[:min(len(keys), most)]
	q := make([]string, len(shown))
	for i, k := range shown {
		q[i] = quotedKey(k)
	}
	text := strings.Join(q, ", ")
	if more := len(keys) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %s more", grouped(more))
	}
	return text
}

// quotedKey shows a key for people. It leaves out the middle of a long one.
func quotedKey(key string) string {
	const most, side = 100, 45
	if len(key) <= most {
		return strconv.Quote(key)
	}
	head, tail := side, len(key)-side
	for ; head > 0 && !utf8.RuneStart(key[head]); head-- {
	}
	for ; tail < len(key) && !utf8.RuneStart(key[tail]); tail++ {
	}
	return fmt.Sprintf("%q (%s bytes)", key[:head]+"…"+key[tail:], grouped(len(key)))
}

// grouped sets a comma between thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// tooLateError is the cause of an attempt that a quorum granted when nothing was left of it.
type tooLateError struct{ elapsed, ttl time.Duration }

func (e *tooLateError) Error() string {
	return fmt.Sprintf("answered after %v of a %v ttl", round3(e.elapsed), e.ttl)
}

// round3 shortens a duration for people to about three digits.
func round3(d time.Duration) time.Duration {
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}
