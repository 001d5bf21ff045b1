package redistest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// historyLimit is how many of the last events are kept.
const historyLimit = 40

// history is what was done to a server or a proxy and when, for the log of a failing test. The zero value
// is ready; safe for concurrent use.
type history struct {
	mu      sync.Mutex
	begin   time.Time // of the first event
	events  []string
	earlier int // events that are not kept any more
}

func (h *history) note(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begin.IsZero() {
		h.begin = time.Now()
	}
	if len(h.events) == historyLimit {
		h.events = append(h.events[:0], h.events[1:]...)
		h.earlier++
	}
	h.events = append(h.events, fmt.Sprintf("+%v %s", time.Since(h.begin).Round(time.Millisecond), event))
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := strings.Join(h.events, ", ")
	if h.earlier > 0 {
		return fmt.Sprintf("(%d earlier) %s", h.earlier, events)
	}
	return events
}
