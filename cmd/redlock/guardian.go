package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

// heldLock is what a guardian needs of a lock.
type heldLock interface {
	Key() string
	Validity() time.Duration
	Until() time.Time
	Done() <-chan struct{}
	Err() error
}

var _ heldLock = (*redlock.Lock)(nil)

// process is what a guardian needs of a command that runs.
type process interface {
	forward(os.Signal) error
	terminate() error
	kill() error
	done() <-chan struct{}
}

// guardian sees to it that a command ends before its lock does.
type guardian struct {
	lock    heldLock
	grace   time.Duration // from terminate to kill
	reserve time.Duration // from kill to the end of the validity: what ending a process may take
	tell    func(format string, args ...any)
	telling sync.WaitGroup
	stopped atomic.Bool // a command that was not to go on is being ended

	maxHold time.Duration // 0: no limit
	limit   time.Time     // what Until comes to when no renewal can move it any more
}

// lookEvery bounds the time between two looks at the validity: timers stand still while a machine is
// suspended, and the validity does not.
const lookEvery = time.Second

func newGuardian(lock heldLock, r *run) *guardian {
	g := &guardian{lock: lock, grace: r.grace, reserve: min(r.ttl/20, 500*time.Millisecond), tell: r.app.tell}
	if r.maxHold != 0 {
		g.maxHold, g.limit = r.maxHold, lock.Until().Add(r.maxHold-r.ttl)
	}
	return g
}

// mayGoOn reports whether a command that was stopped may run again: it must not where the lock ran out
// meanwhile. It is called beside watch.
func (g *guardian) mayGoOn() bool {
	may := g.lock.Validity() > g.reserve
	g.stopped.Store(!may)
	return may
}

// watch forwards signals until the command has ended. If the lock fails it, by being lost or by
// coming too near the end of its validity, it is terminated and then killed, and watch returns why.
func (g *guardian) watch(p process, signals <-chan os.Signal) (failed error) {
	lost := g.lock.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var killAt time.Time // once terminated
	for {
		select {
		case <-p.done():
			if failed == nil && g.stopped.Load() {
				failed = g.failure(g.left())
				g.say("%w; the command was stopped at the time, and has been killed", failed)
			}
			return failed
		case s := <-signals:
			_ = p.forward(s) // it has just ended, or there is nothing like it to send
			continue
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		left := g.left()
		if failed == nil && (lost == nil || left <= g.grace+g.reserve) {
			failed, lost = g.failure(left), nil
			killAt = time.Now().Add(min(g.grace, left-g.reserve))
			g.say("%w; the command is asked to stop, and killed in %v", failed, round(max(0, time.Until(killAt))))
			_ = p.terminate() // kill follows
		}
		switch {
		case failed == nil:
			timer.Reset(min(lookEvery, left-g.grace-g.reserve))
		case left <= g.reserve || time.Until(killAt) <= 0:
			if err := p.kill(); err != nil {
				g.say("the command could not be killed: %w", err)
			}
			timer.Reset(lookEvery) // and again until it is gone
		default:
			timer.Reset(min(lookEvery, time.Until(killAt), left-g.reserve))
		}
	}
}

// say tells without waiting for it: whoever reads our messages may have stopped reading (Ctrl-S, a pager), and the
// command has to end all the same.
func (g *guardian) say(format string, args ...any) {
	g.telling.Go(func() { g.tell(format, args...) })
}

// patienceWithReaders is how long the end of the program waits for its messages to be read.
const patienceWithReaders = time.Second

func (g *guardian) awaitReaders() {
	read := make(chan struct{})
	go func() { // it ends with the program, where nobody reads
		g.telling.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(patienceWithReaders):
	}
}

// left returns the time until the lock's validity is over; for a lock that is lost, until it would have
// been over, by whichever clock says less.
func (g *guardian) left() time.Duration {
	if g.lock.Err() == nil {
		return g.lock.Validity()
	}
	until := g.lock.Until()
	return min(time.Until(until), until.Round(0).Sub(time.Now().Round(0)))
}

// failure says why the command cannot go on.
func (g *guardian) failure(left time.Duration) error {
	if err := g.lock.Err(); err != nil {
		return err
	}
	if g.maxHold != 0 && !g.lock.Until().Before(g.limit) {
		return fmt.Errorf("the lock on %q ends in %v: --max-hold of %v is over", g.lock.Key(), round(left), g.maxHold)
	}
	return fmt.Errorf("the lock on %q ends in %v: the nodes have not renewed it (redlock check tells what is wrong with them)", g.lock.Key(), round(left))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
