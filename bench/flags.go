package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	minSpawn, maxSpawn       = 1, 31
	minCallers, maxCallers   = 1, 1024
	minKeys, maxKeys         = 1, 1_000_000
	minDuration, maxDuration = 10 * time.Millisecond, 24 * time.Hour
	minTTL, maxTTL           = 10 * time.Millisecond, 24 * time.Hour

	defaultCallers  = 1
	defaultDuration = 3 * time.Second
	defaultTTL      = 10 * time.Second
)

// settings are the checked flags.
type settings struct {
	urls     []string // nodes given by URL
	spawn    int      // redis-server processes to start; with neither, nodes are embedded
	callers  int
	keys     int
	duration time.Duration
	ttl      time.Duration
	hold     time.Duration // between the grant and the release
	fencing  bool
	json     bool
	outputs  outputs

	rate   int             // starts a second of an open loop; 0: a closed one
	wait   time.Duration   // of an acquire of the open loop or a contending one; 0: one attempt
	faults []fault         // of spawned nodes
	rtts   []time.Duration // of spawned nodes, through proxies

	contend bool // callers wait for keys that they share
	lockers int  // that contending callers are dealt out to; 0: one

	sweep string // what changes from run to run; "" for a single run
	embed int    // nodes to embed; 0: as many as usual
}

// warmUp is the time before the measured one. It lets connections open and scripts load.
func (s settings) warmUp() time.Duration { return min(300*time.Millisecond, s.duration) }

// parseFlags returns flag.ErrHelp where help was asked for, else an error of one line that names the flag.
func parseFlags(args []string) (settings, error) {
	s := settings{duration: defaultDuration, ttl: defaultTTL}
	var nodes *string // not parsed inside package flag: its errors quote the value, and with it a password
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("nodes", "", func(text string) error { nodes = &text; return nil })
	flags.Func("spawn", "", wholeNumber(&s.spawn, minSpawn, maxSpawn))
	flags.Func("c", "", wholeNumber(&s.callers, minCallers, maxCallers))
	flags.Func("keys", "", wholeNumber(&s.keys, minKeys, maxKeys))
	flags.Func("d", "", duration(&s.duration, minDuration, maxDuration))
	flags.Func("ttl", "", duration(&s.ttl, minTTL, maxTTL))
	flags.BoolFunc("json", "", func(text string) (err error) {
		if s.json, err = strconv.ParseBool(text); err != nil {
			return errors.New("accepted: true or false")
		}
		return nil
	})
	checkLoad := loadFlags(flags, &s)
	checkLock := lockFlags(flags, &s)
	checkSweep := sweepFlags(flags, &s)
	s.outputs.register(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return s, err
	} else if err != nil {
		return s, fmt.Errorf("%w (-h explains the flags)", err)
	}
	switch {
	case flags.NArg() > 0: // not quoted: it may be the rest of a list of nodes
		return s, fmt.Errorf("argument %d is not a flag; -nodes takes one list without spaces (-h explains the flags)",
			len(args)-flags.NArg()+1)
	case nodes != nil && s.spawn > 0:
		return s, errors.New("-nodes and -spawn exclude each other: give nodes or have them started")
	}
	if err := cmp.Or(checkSweep(), checkLoad(nodes != nil), checkLock()); err != nil {
		return s, err
	}
	if s.sweep == "" { // else each run has its own
		s = s.withDefaults()
	}
	if nodes != nil {
		var err error
		s.urls, err = parseNodes(*nodes)
		return s, err
	}
	return s, nil
}

// withDefaults sets what depends on other flags.
func (s settings) withDefaults() settings {
	if s.callers == 0 {
		s.callers = s.defaultCallers()
	}
	switch {
	case s.keys == 0 && s.contend:
		s.keys = 1
	case s.keys == 0:
		s.keys = s.callers
	}
	return s
}

func wholeNumber(target *int, low, high int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return fmt.Errorf("accepted: whole numbers from %d to %d", low, high)
		}
		*target = n
		return nil
	}
}

func duration(target *time.Duration, low, high time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < low || d > high {
			return fmt.Errorf("accepted: durations with a unit from %s to %s", shortDuration(low), shortDuration(high))
		}
		*target = d
		return nil
	}
}

// shortDuration leaves out the zeros at the end: 24h, not 24h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// parseNodes names nodes by their position or address, never by their URL.
func parseNodes(text string) ([]string, error) {
	urls := strings.Split(text, ",")
	first := map[string]int{}
	for i := range urls {
		urls[i] = strings.TrimSpace(urls[i])
		addr, ok := address(urls[i])
		if !ok {
			return nil, fmt.Errorf("-nodes: number %d is not a node; accepted: redis://host:port and rediss://host:port, "+
				"separated by commas", i+1)
		}
		if n := first[addr]; n > 0 {
			return nil, fmt.Errorf("-nodes: numbers %d and %d are both %s; accepted: distinct nodes", n, i+1, addr)
		}
		first[addr] = i + 1
	}
	return urls, nil
}

// address returns the host:port in a node's URL. It drops the parsers' reasons, which quote the URL.
func address(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return "", false
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		return "", false
	}
	_, port, err := net.SplitHostPort(options.Addr)
	if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || n < 1 || n > 65535 {
		return "", false
	}
	return options.Addr, true
}

func usage() string {
	return fmt.Sprintf(`bench measures what a lock on a quorum of Redis nodes costs: acquire, renew and release,
beside the round trip to each node.

usage: bench [flags]                  without -nodes and -spawn: 5 nodes embedded in this process
       bench compare a.json b.json     two results of -json side by side

  -nodes url,url,…  your nodes: redis://user:password@host:port/db, or rediss:// for TLS
  -spawn N          start N redis-server processes for the time of the run (%d to %d)
  -c N              callers that acquire, renew and release over and over (default %d; %d to %d)
%s  -keys N           distinct keys (default: one per caller; %d to %d). With fewer keys than
                    callers they contend, and refusals are counted as "held"
  -ttl D            life asked for each key (default %s; %s to %s)
%s%s  -d D              how long to measure, after a warm-up of %s or D (default %s; %s to %s)
  -json             print one JSON document instead of the table
  -report F         write a page for people too: one HTML file with charts, for any browser
  -hgrm P           write the percentiles of each operation to P-acquire.hgrm and so on, in
                    milliseconds, for the plotters of HdrHistogram
  -h                print this

examples:
  go run ./bench -spawn 5 -c 64
  go run ./bench -nodes redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379 -d 30s -json

exit status: 0 measured; 1 no lock could be taken, no nodes to measure, or a file not written;
2 wrong flags; 130 interrupted: what was measured until then is printed, marked as partial.
`, minSpawn, maxSpawn, defaultCallers, minCallers, maxCallers, loadUsage(), minKeys, maxKeys,
		shortDuration(defaultTTL), shortDuration(minTTL), shortDuration(maxTTL), lockUsage(), sweepUsage(),
		shortDuration(settings{duration: maxDuration}.warmUp()),
		shortDuration(defaultDuration), shortDuration(minDuration), shortDuration(maxDuration))
}
