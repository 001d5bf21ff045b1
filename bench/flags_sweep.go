package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

const overCallers, overNodes = "callers", "nodes"

// sweepValues are what a sweep goes through.
var sweepValues = map[string][]int{
	overCallers: {1, 4, 16, 64, 256},
	overNodes:   {1, 3, 5, 7},
}

// sweepFlags adds -sweep. The function it returns checks it against the others once all are parsed.
func sweepFlags(flags *flag.FlagSet, s *settings) (check func() error) {
	flags.Func("sweep", "", func(text string) error {
		if _, known := sweepValues[text]; !known {
			return fmt.Errorf("accepted: %s or %s", overCallers, overNodes)
		}
		s.sweep = text
		return nil
	})
	return func() error {
		if s.sweep == "" {
			return nil
		}
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		return s.checkSweep(given)
	}
}

func (s settings) checkSweep(given map[string]bool) error {
	switch {
	case s.rate > 0:
		return errors.New("-sweep and -rate exclude each other: a sweep runs the closed loop")
	case s.contend:
		return errors.New("-sweep and -contend exclude each other: a sweep's callers do not wait for each other")
	case given["fault"], given["rtt"]:
		return errors.New("-sweep excludes -fault and -rtt: measure those in a run of their own")
	case given["hgrm"]:
		return errors.New("-sweep and -hgrm exclude each other: percentile files are those of a single run")
	case s.sweep == overCallers && given["c"]:
		return errors.New("-sweep callers sets the callers itself: leave out -c")
	case s.sweep == overNodes && given["nodes"]:
		return errors.New("-sweep nodes is for spawned or embedded nodes: leave out -nodes")
	}
	return nil
}

// at are the settings of a sweep's run with that value.
func (s settings) at(value int) settings {
	switch {
	case s.sweep == overCallers:
		s.callers = value
	case s.spawn > 0:
		s.spawn = value
	default:
		s.embed = value
	}
	return s.withDefaults()
}

// sweepUsage is the flag's part of the help.
func sweepUsage() string {
	list := func(over string) string {
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(sweepValues[over])), ", "), "[]")
	}
	return fmt.Sprintf(`  -sweep callers    one run of -d with each of %s callers on the same nodes, and a
                    table of all; -report draws the throughput
  -sweep nodes      the same with each of %s nodes: embedded, or spawned with -spawn N,
                    where the sweep and not N says how many
`, list(overCallers), list(overNodes))
}
