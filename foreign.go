package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// A foreign holder is one of another library: it releases its key without a wake-up. Its waiters poll.

const (
	foreignLeast = 10 * time.Millisecond
	foreignMost  = 100 * time.Millisecond

	notForeign = time.Duration(-1)
)

// foreignPoll returns when to ask the gate again for a key that a foreign holder has been seen to keep for so
// long: after a quarter of that time, within the bounds, with jitter of a half. So a waiter is late by
// an eighth of the hold on average, and a long hold costs the gate some ten commands a second. Jitter keeps
// waiters of several lockers from asking in step.
func foreignPoll(seen time.Duration, random float64) time.Duration {
	delay := time.Duration((0.5 + random) * float64(min(seen/4, foreignMost)))
	return min(max(delay, foreignLeast), foreignMost)
}

// sighting is the token last seen in the way of a line, and since when.
type sighting struct {
	token string
	since clock.Instant
}

// strangerFor returns how long a foreign token has been seen in the way: notForeign if it is one of this library, whose
// release will wake us, or if the gate did not refuse.
func (ln *line) strangerFor(e *entry, now clock.Instant) time.Duration {
	if !e.wasRefused() || ownerOf(e.answer.holder) != "" {
		return notForeign
	}
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if s := &ln.stranger; s.since == (clock.Instant{}) || s.token != e.answer.holder {
		*s = sighting{e.answer.holder, now}
	}
	return now.Since(ln.stranger.since)
}
