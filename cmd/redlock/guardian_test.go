package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// stubLock is a lock that a test renews and loses.
type stubLock struct {
	over chan struct{}

	mu        sync.Mutex
	until     time.Time
	suspended time.Duration // by how much the machine stood still: timers did not see it pass
	err       error
}

func newStubLock(validity time.Duration) *stubLock {
	return &stubLock{until: time.Now().Add(validity), over: make(chan struct{})}
}

func (l *stubLock) Key() string           { return "job" }
func (l *stubLock) Done() <-chan struct{} { return l.over }

func (l *stubLock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *stubLock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *stubLock) Validity() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0
	}
	return max(0, time.Until(l.until)-l.suspended)
}

func (l *stubLock) renew(validity time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(validity)
}

func (l *stubLock) suspend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = d
}

func (l *stubLock) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = fmt.Errorf("redlock: %w: %s", redlock.ErrLost, why)
	close(l.over)
}

// stubProcess notes what was done to it, and when.
type stubProcess struct {
	begun   time.Time
	stops   bool // when it is asked to
	killErr error
	gone    chan struct{}
	end     func() // may be called again

	events []string // by the guardian alone
}

func newStubProcess() *stubProcess {
	p := &stubProcess{begun: time.Now(), gone: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.gone) })
	return p
}

func (p *stubProcess) note(what string) {
	p.events = append(p.events, fmt.Sprintf("%s at %v", what, time.Since(p.begun)))
}

func (p *stubProcess) forward(s os.Signal) error { p.note(s.String()); return nil }
func (p *stubProcess) done() <-chan struct{}     { return p.gone }

func (p *stubProcess) terminate() error {
	p.note("terminate")
	if p.stops {
		time.AfterFunc(time.Second, p.end)
	}
	return nil
}

func (p *stubProcess) kill() error {
	p.note("kill")
	if p.killErr != nil {
		return p.killErr
	}
	p.end()
	return nil
}

// inWatch runs a guardian of a 20 s lock with a grace of 5 s and a reserve of 500 ms, and returns what watch did.
func inWatch(t *testing.T, act func(l *stubLock, p *stubProcess, g *guardian)) (told []string) {
	return inWatchOf(t, run{ttl: 20 * time.Second, grace: 5 * time.Second}, 20*time.Second, act)
}

func inWatchOf(t *testing.T, r run, validity time.Duration, act func(l *stubLock, p *stubProcess, g *guardian)) (told []string) {
	synctest.Test(t, func(t *testing.T) {
		lock, p := newStubLock(validity), newStubProcess()
		r.app = &app{}
		g := newGuardian(lock, &r)
		var mu sync.Mutex
		g.tell = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Errorf(format, args...).Error())
		}
		act(lock, p, g)
		g.telling.Wait()
	})
	return told
}

func TestACommandThatEndsIsLeftAlone(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(14*time.Second, p.end)
		assert.NoError(t, g.watch(p, nil))
		assert.Empty(t, p.events)
	})
	assert.Empty(t, told)
}

func TestACommandUnderALockThatIsRenewedIsLeftAlone(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		go func() {
			for range 60 {
				time.Sleep(10 * time.Second)
				l.renew(20 * time.Second)
			}
			p.end()
		}()
		assert.NoError(t, g.watch(p, nil))
		assert.Empty(t, p.events)
	})
}

func TestACommandThatIgnoresTermIsGoneBeforeUntil(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		assert.ErrorContains(t, g.watch(p, nil), "have not renewed it")
		assert.Equal(t, []string{"terminate at 14.5s", "kill at 19.5s"}, p.events)
	})
	assert.Equal(t, []string{`the lock on "job" ends in 5.5s: the nodes have not renewed it (redlock check tells what is wrong with them); ` +
		"the command is asked to stop, and killed in 5s"}, told)
}

func TestACommandThatStopsWhenAskedIsNotKilled(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		p.stops = true
		assert.Error(t, g.watch(p, nil), "the lock failed it all the same")
		assert.Equal(t, []string{"terminate at 14.5s"}, p.events)
	})
}

func TestARenewalThatComesTooLateDoesNotSaveACommandThatWasAskedToStop(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(15*time.Second, func() { l.renew(time.Hour) })
		assert.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 14.5s", "kill at 19.5s"}, p.events)
	})
}

func TestAShorterValidityThanThoughtMovesTheKill(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(15*time.Second, func() { l.renew(3 * time.Second) })
		assert.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 14.5s", "kill at 17.5s"}, p.events)
	})
}

func TestALockThatWasTakenAwayEndsTheCommandAfterTheGrace(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(3*time.Second, func() { l.lose("deleted") })
		assert.ErrorIs(t, g.watch(p, nil), redlock.ErrLost)
		assert.Equal(t, []string{"terminate at 3s", "kill at 8s"}, p.events)
	})
	assert.Contains(t, told[0], "deleted; the command is asked to stop, and killed in 5s")
}

func TestALockThatWasTakenAwayLateEndsTheCommandBeforeUntil(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		l.renew(8 * time.Second)
		time.AfterFunc(2*time.Second, func() { l.lose("deleted") })
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 2s", "kill at 7s"}, p.events)
	})
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		l.renew(0)
		l.lose("its validity ran out")
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 0s", "kill at 0s"}, p.events)
	})
}

func TestWithoutGraceACommandIsEndedAtOnce(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		g.grace = 0
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 19.5s", "kill at 19.5s"}, p.events)
	})
}

func TestAMachineThatWasSuspendedEndsTheCommandWithinASecond(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(3500*time.Millisecond, func() { l.suspend(time.Hour) })
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 4s", "kill at 4s"}, p.events)
	})
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) { // part of the grace is left
		time.AfterFunc(3500*time.Millisecond, func() { l.suspend(13300 * time.Millisecond) })
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 4s", "kill at 6.2s"}, p.events)
	})
	assert.Contains(t, told[0], "ends in 2.7s")
	assert.Contains(t, told[0], "killed in 2.2s")
}

func TestTheReserveLeavesRoomForRenewalsOfAShortLock(t *testing.T) {
	for ttl, reserve := range map[time.Duration]time.Duration{
		time.Second: 50 * time.Millisecond, 10 * time.Second: 500 * time.Millisecond, time.Hour: 500 * time.Millisecond,
	} {
		assert.Equal(t, reserve, newGuardian(newStubLock(ttl), &run{ttl: ttl, app: &app{}}).reserve)
	}
}

func TestSignalsAreForwardedToTheCommand(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		in := make(chan os.Signal, 1)
		time.AfterFunc(time.Second, func() { in <- os.Interrupt })
		time.AfterFunc(15*time.Second, func() { in <- syscall.SIGTERM })
		require.Error(t, g.watch(p, in))
		assert.Equal(t, []string{"interrupt at 1s", "terminate at 14.5s", "terminated at 15s", "kill at 19.5s"}, p.events)
	})
}

func TestAKillThatFailsIsToldAndRepeated(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		p.killErr = errors.New("not permitted")
		time.AfterFunc(21*time.Second, p.end)
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 14.5s", "kill at 19.5s", "kill at 20.5s"}, p.events)
	})
	assert.Contains(t, told, "the command could not be killed: not permitted")
}

func TestTheEndOfMaxHoldIsToldAsSuch(t *testing.T) {
	told := inWatchOf(t, longRun, longValidity, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(30*time.Second, func() { l.renew(longValidity) }) // the last one: no later one is to outlast MaxHold
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 1m13.898s", "kill at 1m28.898s"}, p.events)
	})
	assert.Contains(t, told[0], "--max-hold of 1m30s is over")
}

func TestNodesThatDoNotRenewAreNotTakenForTheEndOfMaxHold(t *testing.T) {
	told := inWatchOf(t, longRun, longValidity, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(29*time.Second, func() { l.renew(longValidity) })
		require.Error(t, g.watch(p, nil))
	})
	assert.Contains(t, told[0], "the nodes have not renewed it")
}

// longRun is one where the allowance for drift is larger than the guardian's reserve.
var longRun = run{ttl: time.Minute, grace: 15 * time.Second, maxHold: 90 * time.Second}

const longValidity = time.Minute - time.Minute/100 - 2*time.Millisecond

func TestMessagesThatNobodyReadsHoldUpNothing(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		p.killErr = errors.New("not permitted")
		time.AfterFunc(21*time.Second, p.end)
		tell, reading := g.tell, make(chan struct{})
		g.tell = func(format string, args ...any) {
			<-reading
			tell(format, args...)
		}
		require.Error(t, g.watch(p, nil))
		assert.Equal(t, []string{"terminate at 14.5s", "kill at 19.5s", "kill at 20.5s"}, p.events)
		close(reading)
	})
	assert.Len(t, told, 3)
}

func TestACommandThatWasStoppedMayGoOnWhileTheLockLasts(t *testing.T) {
	inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		assert.True(t, g.mayGoOn())
		l.renew(g.reserve)
		assert.False(t, g.mayGoOn(), "no time is left to end it")
		l.renew(time.Hour)
		l.lose("deleted")
		assert.False(t, g.mayGoOn())
	})
}

func TestACommandThatMayNotGoOnIsToldOfAsEndedForItsLock(t *testing.T) {
	told := inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(3500*time.Millisecond, func() { // the program was stopped too, and could not look before
			l.suspend(19600*time.Millisecond - 3500*time.Millisecond)
			assert.False(t, g.mayGoOn())
			p.end()
		})
		assert.Error(t, g.watch(p, nil))
		assert.Empty(t, p.events)
	})
	assert.Contains(t, told[0], "the command was stopped at the time, and has been killed")
	told = inWatch(t, func(l *stubLock, p *stubProcess, g *guardian) {
		time.AfterFunc(16*time.Second, func() {
			l.lose("deleted")
			assert.False(t, g.mayGoOn())
			p.end()
		})
		assert.Error(t, g.watch(p, nil))
	})
	assert.Len(t, told, 1, "it was told already")
}
