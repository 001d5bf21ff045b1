package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// serverError is what the client library calls an error that the server has answered with.
type serverError interface {
	error
	RedisError()
}

// Unreached wraps an error of the server that no command of ours has caused.
type Unreached struct{ Err error }

func (u *Unreached) Error() string { return fmt.Sprintf("not connected: %v", u.Err) }
func (u *Unreached) Unwrap() error { return u.Err }

// IsReply reports whether err came from the node as the answer to the command.
func IsReply(err error) bool {
	if _, ok := errors.AsType[*Unreached](err); ok {
		return false
	}
	_, ok := errors.AsType[serverError](err)
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
	{"max number of clients", "the node has no room for another connection: raise maxclients"},
	{"DENIED", "the node is in protected mode: set a password or bind it to this address"},
}

// Explain adds to a node's error what to do about it, and takes deadlines of the worker out
// of the chain: they are not the caller's.
func Explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("timed out")
	}
	if reply, ok := errors.AsType[serverError](err); ok {
		return Advised(err, reply.Error())
	}
	return err
}

// Advised adds to err what to do about the text of a server.
func Advised(err error, text string) error {
	text = strings.TrimPrefix(text, "ERR ") // Kvrocks adds that
	if strings.HasPrefix(text, "Error running script") {
		// Before Redis 7: "ERR Error running script (call to f_…): @user_script:4: WRONGTYPE …".
		if _, cause, found := strings.Cut(text, "@user_script:"); found {
			_, text, _ = strings.Cut(cause, ": ")
			text = strings.TrimPrefix(strings.TrimPrefix(text, "-"), "ERR ")
		}
	}
	for _, a := range advice {
		if strings.HasPrefix(text, a.prefix) && strings.HasSuffix(err.Error(), "("+a.text+")") {
			return err // it has been said
		}
		if strings.HasPrefix(text, a.prefix) {
			return fmt.Errorf("%w (%s)", err, a.text)
		}
	}
	return err
}
