package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/redistest"
)

const (
	minRate, maxRate = 1, 100_000

	openLoop, closedLoop = "open", "closed"

	// In an open loop every caller beyond what the nodes need costs next to nothing, and too few make the
	// starts queue up: with the default wait, a second's starts can be waiting for nodes to come back.
	leastOpenCallers = 256

	maxWait     = time.Minute
	defaultWait = 750 * time.Millisecond // Acquire's own

	minLockers, maxLockers = 1, 256
	contendingCallers      = 16
	contendingWait         = 10 * time.Second // long enough to see who is served late
)

func (s settings) loop() string {
	if s.rate > 0 {
		return openLoop
	}
	return closedLoop
}

// defaultCallers is the number of callers where -c does not say.
func (s settings) defaultCallers() int {
	switch {
	case s.contend:
		return contendingCallers
	case s.rate == 0:
		return defaultCallers
	}
	return min(max(leastOpenCallers, s.rate), maxCallers)
}

// loadFlags adds the flags that shape the load and the nodes' behaviour. The function it returns checks them
// against the others once all are parsed.
func loadFlags(flags *flag.FlagSet, s *settings) (check func(nodesGiven bool) error) {
	var faults, rtts *string
	s.wait = -1
	flags.Func("wait", "", duration(&s.wait, 0, maxWait))
	flags.Func("rate", "", wholeNumber(&s.rate, minRate, maxRate))
	flags.BoolFunc("contend", "", func(text string) (err error) {
		if s.contend, err = strconv.ParseBool(text); err != nil {
			return errors.New("accepted: true or false")
		}
		return nil
	})
	flags.Func("lockers", "", wholeNumber(&s.lockers, minLockers, maxLockers))
	flags.Func("fault", "", func(text string) error { faults = &text; return nil })
	flags.Func("rtt", "", func(text string) error { rtts = &text; return nil })
	return func(nodesGiven bool) error {
		switch {
		case s.contend && s.rate > 0:
			return errors.New("-contend and -rate exclude each other: contending callers start when they are done")
		case s.lockers > 0 && !s.contend:
			return errors.New("-lockers is for contending callers: add -contend")
		case s.contend && s.wait == 0:
			return errors.New("-wait: contending callers wait: give more than 0s")
		case s.wait >= 0 && s.rate == 0 && !s.contend:
			return errors.New("-wait is for the open loop and for contending callers: add -rate N or -contend " +
				"(callers of the closed loop make one attempt)")
		case s.wait < 0 && s.rate > 0:
			s.wait = defaultWait
		case s.wait < 0 && s.contend:
			s.wait = contendingWait
		}
		s.wait = max(s.wait, 0)
		if rtts != nil {
			if err := s.takeRTTs(*rtts, nodesGiven); err != nil {
				return err
			}
		}
		if faults != nil {
			return s.takeFaults(*faults)
		}
		return nil
	}
}

func (s *settings) takeRTTs(text string, nodesGiven bool) (err error) {
	if nodesGiven {
		return errors.New("-rtt is for spawned nodes: leave out -nodes")
	}
	if s.rtts, err = parseRTTs(text); err != nil {
		return fmt.Errorf("-rtt: %w", err)
	}
	if s.spawn == 0 {
		s.spawn = len(s.rtts)
	}
	if s.spawn != len(s.rtts) {
		return fmt.Errorf("-rtt has %d round trips for the %d nodes of -spawn: give one for each, or leave out -spawn",
			len(s.rtts), s.spawn)
	}
	return nil
}

func (s *settings) takeFaults(text string) (err error) {
	if s.spawn == 0 {
		return errors.New("-fault is for spawned nodes: add -spawn N")
	}
	if s.faults, err = parseFaults(text); err == nil {
		err = checkFaults(s.faults, s.spawn, s.duration)
	}
	if err == nil {
		err = checkStops(s.faults, redistest.CanPause())
	}
	if err != nil {
		return fmt.Errorf("-fault: %w", err)
	}
	return nil
}

// loadUsage is these flags' part of the help.
func loadUsage() string {
	return fmt.Sprintf(`  -rate N           open loop: start N full cycles a second on schedule, whatever became of those
                    before, and count from the schedule (%d to %d; default of -c then: N,
                    from %d to %d)
  -wait D           how long an acquire of the open loop waits for the lock (default %s, as
                    Acquire does; 0s: one attempt)
  -contend          callers (default %d) wait for the same keys (default 1) and do not renew: how
                    long a hand-over takes, who waits longest; -wait is %s then by default
  -lockers N        lockers that contending callers are dealt out to (default 1; to %d)
  -fault list       what to do to spawned nodes, at times since the end of the warm-up; nodes from 0:
                      stop:2@3s+2s       SIGSTOP at 3 s for 2 s
                      kill:1@6s          SIGKILL, dead until a restart
                      restart:1@7s       starts again, empty
                      delay:0=5ms@0s+4s  5 ms more of round trip, for 4 s
                      hang:1@2s+1s       its network is silent for 1 s
                      cut:2@5s           all its connections end
  -rtt D,D,…        spawn one node per round trip and put a proxy of that round trip before each
`, minRate, maxRate, leastOpenCallers, maxCallers, shortDuration(defaultWait),
		contendingCallers, shortDuration(contendingWait), maxLockers)
}
