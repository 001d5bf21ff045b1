package redlock_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// grant is one lock that was held, in times since the history began, all from one monotonic clock.
type grant struct {
	worker     int
	key, token string
	asked      time.Duration // the acquire was called
	got        time.Duration // it returned: the holder may act from here …
	end        time.Duration // … to here: Until, or the call of Release or the end of Done where that came first
	how        string        // released, lost or abandoned
}

func (g grant) String() string {
	return fmt.Sprintf("%s: worker %d as %s, %v to %v, %s", g.key, g.worker, g.token, g.got, g.end, g.how)
}

// history records grants and what else the workers saw. Safe for concurrent use.
type history struct {
	begin time.Time

	mu     sync.Mutex
	grants []grant
	counts map[string]int
}

func newHistory() *history { return &history{begin: time.Now(), counts: make(map[string]int)} }

func (h *history) now() time.Duration { return time.Since(h.begin) }

func (h *history) add(g grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = append(h.grants, g)
	h.counts["ended: "+g.how]++
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// counted lists the counters whose names begin with prefix, without it.
func (h *history) counted(prefix string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return listed(h.counts, prefix)
}

func listed(counts map[string]int, prefix string) string {
	var list []string
	for name, n := range counts {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			list = append(list, fmt.Sprintf("%d %s", n, rest))
		}
	}
	slices.Sort(list)
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// longestGap is the longest time to end in which no grant came.
func (h *history) longestGap(end time.Duration) time.Duration {
	times := []time.Duration{0}
	for _, g := range h.grants {
		if g.got < end {
			times = append(times, g.got)
		}
	}
	times = append(times, end)
	slices.Sort(times)
	var gap time.Duration
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i]-times[i-1])
	}
	return gap
}

// overlaps is the naive twin of the model: it compares every grant of a key with the one that
// lasts longest of those before it, and returns the number of comparisons and what it found.
func (h *history) overlaps() (checked int, found []string) {
	byKey := make(map[string][]grant)
	for _, g := range h.grants {
		byKey[g.key] = append(byKey[g.key], g)
	}
	for _, grants := range byKey {
		slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.got, b.got) })
		last := grants[0]
		for _, g := range grants[1:] {
			checked++
			if g.got < last.end {
				found = append(found, fmt.Sprintf("%v too early:\n\t%v\n\t%v", last.end-g.got, last, g))
			}
			if g.end > last.end {
				last = g
			}
		}
	}
	slices.Sort(found)
	return checked, found
}

// step is the input of an operation on the model: a lock taken, or given up.
type step struct {
	acquire    bool
	key, token string
	how        string
}

// exclusive is a lock per key that one token holds at a time. Its state is that token.
var exclusive = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range all {
			key := op.Input.(step).key
			byKey[key] = append(byKey[key], op)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		s := input.(step)
		if s.acquire {
			return state == "", s.token
		}
		return state == s.token, ""
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(step)
		if s.acquire {
			return fmt.Sprintf("acquire %s as %s", s.key, s.token)
		}
		return fmt.Sprintf("%s %s of %s", s.how, s.key, s.token)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("held by %q", state) },
}

// operations are an acquire, which took effect between its call and its return, and an end, a
// moment, for each grant. Ends that no call caused have clients of their own in the picture.
func (h *history) operations(workers int) (ops []porcupine.Operation) {
	for _, g := range h.grants {
		token := g.token[strings.LastIndex(g.token, "/")+1:][:8]
		ops = append(ops, porcupine.Operation{
			ClientId: g.worker, Call: int64(g.asked), Return: int64(g.got),
			Input: step{acquire: true, key: g.key, token: token},
		})
		client := g.worker
		if g.how != "released" {
			client += workers
		}
		ops = append(ops, porcupine.Operation{
			ClientId: client, Call: int64(max(g.end, g.got)), Return: int64(max(g.end, g.got)),
			Input: step{key: g.key, token: token, how: g.how},
		})
	}
	return ops
}

// check returns why the history is not that of a lock, nil if it is. The error names the file
// with porcupine's picture of it.
func (h *history) check(workers int) error {
	result, info := porcupine.CheckOperationsVerbose(exclusive, h.operations(workers), 30*time.Second)
	_, found := h.overlaps()
	if result == porcupine.Ok && len(found) == 0 {
		return nil
	}
	text := fmt.Sprintf("porcupine says %v, the twin finds %d overlaps", result, len(found))
	if len(found) > 0 {
		text += ":\n" + strings.Join(found[:min(len(found), 10)], "\n")
	}
	file, err := os.CreateTemp("", "redlock-soak-*.html")
	if err != nil {
		return fmt.Errorf("%s\nno picture: %w", text, err)
	}
	defer file.Close()
	if err := porcupine.Visualize(exclusive, info, file); err != nil {
		return fmt.Errorf("%s\nno picture: %w", text, err)
	}
	return fmt.Errorf("%s\npicture: %s", text, file.Name())
}
