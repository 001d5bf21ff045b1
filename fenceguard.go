package redlock

import "sync"

// FenceGuard keeps stale holders away from resources inside a service: ask it before each write. It knows what it has
// been asked, so it must be the only way to the resource; resources elsewhere have to compare for themselves, in
// the same step as they write. The zero value is ready. It is safe for concurrent use.
type FenceGuard struct {
	mu      sync.Mutex
	largest map[string]int64
}

// Admit reports whether a holder with this fence (Lock.Fence) may act on key, and refuses smaller ones from then
// on. A holder is admitted again and again until one with a larger fence came. A fence below 1 is none, and refused.
// A number is kept for every key that was ever admitted.
func (g *FenceGuard) Admit(key string, fence int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fence < 1 || fence < g.largest[key] {
		return false
	}
	if g.largest == nil {
		g.largest = make(map[string]int64)
	}
	g.largest[key] = fence
	return true
}
