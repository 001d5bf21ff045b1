package sim

import (
	"time"

	"github.com/redlock-go/redlock"
)

// operation is one acquire and what becomes of its lock. Its name is the owner in every
// token that it sends.
type operation struct {
	name     string
	keys     []string
	lock     *redlock.Lock // nil until granted
	resumed  bool          // lock is not the first handle; those before it are left alone, whatever they say
	fence    int64
	returned bool      // the acquire has come back
	released time.Time // when Release was called
	orphaned bool      // its locker was closed: nobody pays what it owes

	// The actor's own.
	renewed bool // automatically
	limited bool // by MaxHold
}

// ended reports whether token must vanish from the nodes: it belongs to a lost attempt, or
// its lock was released.
func (o *operation) ended(token string) bool {
	return o.returned && (!o.granted(token) || !o.released.IsZero())
}

func (o *operation) granted(token string) bool { return o.lock != nil && o.lock.Token() == token }

// isOver reports whether the lock was released, or its holder has been told of its loss.
func (o *operation) isOver() bool { return !o.released.IsZero() || isDone(o.lock) }

func isDone(lock *redlock.Lock) bool {
	select {
	case <-lock.Done():
		return true
	default:
		return false
	}
}
