package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of the log; it is put into words only when somebody reads it.
type event struct {
	at     time.Duration // virtual, since the run began
	who    string
	format string
	args   []any // values, never pointers to what changes
}

func (e event) String() string {
	return fmt.Sprintf("%13.6fms  %-7s %s", float64(e.at)/1e6, e.who, fmt.Sprintf(e.format, e.args...))
}

// mostEvents is a hundred times as many as runs have: one that goes astray must not take all memory.
const mostEvents = 1_000_000

// eventLog is what happened in one run, in true time.
type eventLog struct {
	begin time.Time

	mu     sync.Mutex
	events []event
}

func (l *eventLog) add(who, format string, args ...any) {
	at := time.Since(l.begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == mostEvents {
		panic(fmt.Sprintf("too many events; the last is at %v: %s %s", at, who, fmt.Sprintf(format, args...)))
	}
	l.events = append(l.events, event{at, who, format, args})
}

// sorted orders the events by time, those of one instant by who: goroutines that are awake
// in the same virtual instant write in any order.
func (l *eventLog) sorted() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := slices.Clone(l.events)
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who))
	})
	return events
}

func (l *eventLog) String() string {
	var b strings.Builder
	for _, e := range l.sorted() {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// digest is equal for equal logs.
func digest(log string) string {
	sum := sha256.Sum256([]byte(canonical(log)))
	return hex.EncodeToString(sum[:8])
}

// canonical sorts the lines of each instant: callers who are woken at once, each for a key of its own,
// may have got into a batch in any order.
func canonical(log string) string {
	lines := strings.SplitAfter(log, "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(instant(a)), len(instant(b))), cmp.Compare(instant(a), instant(b)), cmp.Compare(a, b))
	})
	return strings.Join(lines, "")
}

// instant returns the time of a line; a later one has more digits or is greater.
func instant(line string) string {
	at, _, _ := strings.Cut(line, "ms  ")
	return strings.TrimLeft(at, " ")
}
