package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redistest"
)

// saboteur does one fault after the other to five servers and keeps a record. Not safe for
// concurrent use; read it once run has returned.
type saboteur struct {
	servers []*redistest.Server
	begin   time.Time
	log     []string
	counts  map[string]int
}

// fault is one kind of harm with the weight of its being chosen. It leaves all servers running.
type fault struct {
	weight int
	name   string
	do     func(s *saboteur, victims []*redistest.Server) error
	nodes  int           // how many victims
	calm   time.Duration // left alone afterwards, at least: so that the restart guard's window passes and grants come
}

var soakFaults = []fault{
	{5, "pause of one", pauseFor(50, 900), 1, 0},
	{5, "pause of two", pauseFor(50, 900), 2, 0},
	{5, "restart of one", restartAfter(0, 400), 1, 0},
	{3, "restart of one while another is paused", restartBesidePause, 2, 0},
	{2, "restarts of three at once", restartAfter(0, 200), 3, soakMost * time.Millisecond},
	{1, "restarts of three in turn", restartInTurn, 3, soakMost * time.Millisecond},
	{1, "stop of a majority", pauseFor(600, 2200), 3, time.Second},
	{4, "script flush", flush, 5, 0},
}

// run does faults until ctx ends, and returns the first error of the servers' own.
func (s *saboteur) run(ctx context.Context) error {
	s.counts = make(map[string]int)
	total := 0
	for _, f := range soakFaults {
		total += f.weight
	}
	for calm := time.Duration(0); sleep(ctx, calm+between(200, 1000)); {
		f := choose(rand.IntN(total))
		victims := make([]*redistest.Server, 0, f.nodes)
		for _, i := range rand.Perm(len(s.servers))[:f.nodes] {
			victims = append(victims, s.servers[i])
		}
		s.note("%s: %s", f.name, addresses(victims))
		s.counts[f.name]++
		if err := f.do(s, victims); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		s.note("… over")
		calm = f.calm
	}
	return nil
}

func choose(at int) fault {
	for _, f := range soakFaults {
		if at < f.weight {
			return f
		}
		at -= f.weight
	}
	panic("beyond the weights")
}

func (s *saboteur) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("+%v ", time.Since(s.begin).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (s *saboteur) String() string { return strings.Join(s.log, "\n") }

func addresses(servers []*redistest.Server) string {
	var list []string
	for _, server := range servers {
		list = append(list, server.Addr())
	}
	return strings.Join(list, ", ")
}

func pauseFor(least, most int) func(*saboteur, []*redistest.Server) error {
	return func(_ *saboteur, victims []*redistest.Server) error {
		return errors.Join(
			each(victims, (*redistest.Server).Pause),
			pause(between(least, most)),
			each(victims, (*redistest.Server).Resume),
		)
	}
}

func restartAfter(least, most int) func(*saboteur, []*redistest.Server) error {
	return func(_ *saboteur, victims []*redistest.Server) error {
		return errors.Join(
			each(victims, (*redistest.Server).Kill),
			pause(between(least, most)),
			each(victims, (*redistest.Server).RestartEmpty),
		)
	}
}

// restartBesidePause makes a lock stand on few nodes and takes one more away from it.
func restartBesidePause(_ *saboteur, victims []*redistest.Server) error {
	paused, killed := victims[0], victims[1]
	return errors.Join(
		paused.Pause(),
		pause(between(100, 600)),
		killed.Kill(),
		killed.RestartEmpty(),
		paused.Resume(),
	)
}

func restartInTurn(s *saboteur, victims []*redistest.Server) error {
	var errs []error
	for i := range victims {
		errs = append(errs, restartAfter(0, 100)(s, victims[i:i+1]), pause(between(50, 300)))
	}
	return errors.Join(errs...)
}

func flush(_ *saboteur, victims []*redistest.Server) error {
	return each(victims, (*redistest.Server).FlushScripts)
}

func each(servers []*redistest.Server, do func(*redistest.Server) error) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, do(server))
	}
	return errors.Join(errs...)
}

// pause takes part in a list of steps that may fail.
func pause(d time.Duration) error {
	time.Sleep(d)
	return nil
}

// between returns a random time from least to most milliseconds.
func between(least, most int) time.Duration {
	return time.Duration(least+rand.IntN(most-least+1)) * time.Millisecond
}

// sleep reports whether ctx lasted as long as d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func openURLs(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.Open(urls, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// restartEmpty kills servers and starts them again without keys.
func restartEmpty(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	var group sync.WaitGroup
	for _, s := range servers {
		group.Go(func() {
			if err := errors.Join(s.Kill(), s.RestartEmpty()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// sleepUntilPast sleeps until the wall clock is d past the next full second.
func sleepUntilPast(d time.Duration) {
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + d)))
}
