package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ttl is long against any measured operation, so that no key runs out within a cycle.
const ttl = 10 * time.Second

// outageCallersMax bounds the sections with stopped nodes: beyond it the numbers would be about queueing alone.
const outageCallersMax = 64

type config struct {
	each       time.Duration // one measurement
	rounds     int
	callers    []int
	nodes      int
	only       []string // names of libraries; empty for all
	pool       string   // poolRaised or poolDefault
	cpuProfile string
	memProfile string
	waiting    bool     // the workload is waiting, not cycles
	lockers    int      // in contention
	sections   []string // names of sections of -waiting; empty for all
	markdown   bool     // the output is for a document
}

// Values of -pool. Raised spares a caller the wait for a connection, and yet it need not be a gift: in one series on
// two quiet cores redsync made 20 to 40 % more cycles with go-redis' own size at 256 callers, in a later one, on a
// loaded machine, neither was clearly ahead. So both can be had, and the output says which it was.
const (
	poolRaised  = "raised"
	poolDefault = "default"
)

// poolSize is the PoolSize of the others' clients.
func (c config) poolSize(callers int) int {
	byDefault := 10 * runtime.GOMAXPROCS(0) // as go-redis documents it
	if c.pool == poolDefault {
		return byDefault
	}
	return max(callers, byDefault)
}

func (c config) poolGiven() string {
	if c.pool == poolDefault {
		return "go-redis' default, 10 per CPU"
	}
	return "the callers, at least go-redis' default (compare -pool default, which can be the faster one)"
}

// limit is the time a measurement with a stopped node gets where a library may wait for that node.
func (c config) limit() time.Duration { return 3 * c.each }

func (c config) wantsSection(name string) bool {
	return len(c.sections) == 0 || slices.Contains(c.sections, name)
}

// minority is the number of nodes that can be stopped while a quorum is left.
func (c config) minority() int { return (c.nodes - 1) / 2 }

func (c config) wants(name string) bool {
	return len(c.only) == 0 || slices.Contains(c.only, name)
}

// outageCallers are the numbers of callers of the sections with stopped nodes.
func (c config) outageCallers() []int {
	var some []int
	for _, n := range c.callers {
		if n <= outageCallersMax {
			some = append(some, n)
		}
	}
	return some
}

func parseFlags(args []string, out io.Writer) (config, error) {
	var (
		c             config
		callers, only string
		sections      string
	)
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.DurationVar(&c.each, "d", time.Second, "time per measurement; with -waiting per contest, 6s where it is not given")
	fs.IntVar(&c.rounds, "rounds", 3, "rounds; the median is shown with the spread")
	fs.StringVar(&callers, "callers", "1,64,256", "concurrent callers, one table each")
	fs.IntVar(&c.nodes, "nodes", 5, "redis-servers to spawn")
	fs.StringVar(&only, "only", "", "libraries to run, of "+strings.Join(libraryNames(), ","))
	fs.StringVar(&c.pool, "pool", poolRaised, "connections of the others' clients: "+poolRaised+" (to the callers) or "+poolDefault+" (go-redis' own)")
	fs.StringVar(&c.cpuProfile, "cpuprofile", "", "write a CPU profile of each healthy redlock measurement to `file`-CALLERS-ROUND; go tool pprof adds up several files")
	fs.StringVar(&c.memProfile, "memprofile", "", "write the allocations of the whole run to `file`; use with -only redlock")
	fs.BoolVar(&c.waiting, "waiting", false, "measure waiting for a key that others want, in place of cycles on keys of one's own")
	fs.IntVar(&c.lockers, "lockers", 16, "with -waiting: lockers that contend for one key")
	fs.StringVar(&sections, "sections", "", "with -waiting: sections to run, of "+strings.Join(sectionNames(), ","))
	fs.BoolVar(&c.markdown, "markdown", false, "print for a document: a paragraph on where the numbers come from, then the tables")
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	if c.callers, err = parseCounts(callers); err != nil {
		return config{}, fmt.Errorf("-callers: %w", err)
	}
	if c.only, err = parseNames(only, libraryNames()); err != nil {
		return config{}, fmt.Errorf("-only: %w", err)
	}
	if c.sections, err = parseNames(sections, sectionNames()); err != nil {
		return config{}, fmt.Errorf("-sections: %w", err)
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if c.waiting && !given["d"] {
		c.each = waitingEach
	}
	return c, errors.Join(c.check(), c.checkWorkload(given))
}

// checkWorkload refuses what the workload would not heed: a flag without effect looks like one that had some.
func (c config) checkWorkload(given map[string]bool) error {
	for _, name := range []string{"callers", "cpuprofile"} {
		if c.waiting && given[name] {
			return fmt.Errorf("-%s: not with -waiting", name)
		}
	}
	for _, name := range []string{"lockers", "sections"} {
		if !c.waiting && given[name] {
			return fmt.Errorf("-%s: only with -waiting", name)
		}
	}
	for _, name := range c.only {
		if c.waiting && !slices.Contains(waitingNames(), name) {
			return fmt.Errorf("-only: %s takes no part in -waiting", name)
		}
	}
	return c.checkSections()
}

// checkSections refuses a library that takes part in none of the sections.
func (c config) checkSections() error {
	for _, lib := range libraries() {
		if len(c.sections) > 0 && slices.Contains(c.only, lib.name) && !slices.ContainsFunc(c.sections, lib.takesPart) {
			return fmt.Errorf("-only: %s takes no part in -sections %s", lib.name, strings.Join(c.sections, ","))
		}
	}
	return nil
}

func (c config) check() error {
	switch {
	case c.each < 10*time.Millisecond:
		return errors.New("-d: must be at least 10ms")
	case c.rounds < 1:
		return errors.New("-rounds: must be at least 1")
	case c.pool != poolRaised && c.pool != poolDefault:
		return fmt.Errorf("-pool: %q is neither %s nor %s", c.pool, poolRaised, poolDefault)
	case c.lockers < 2:
		return errors.New("-lockers: must be at least 2")
	case c.nodes < 1:
		return errors.New("-nodes: must be at least 1")
	}
	return nil
}

func parseCounts(list string) ([]int, error) {
	var counts []int
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", field)
		}
		if slices.Contains(counts, n) {
			return nil, fmt.Errorf("%d stands there twice", n)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

func parseNames(list string, known []string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	var names []string
	for field := range strings.SplitSeq(list, ",") {
		name := strings.TrimSpace(field)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(known, ","))
		}
		names = append(names, name)
	}
	return names, nil
}
