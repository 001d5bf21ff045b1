package redlock

import (
	"strconv"
	"time"
)

// defaultFenceLife is how long the number of a key lives after a grant, beyond its lead on the node's clock: a
// number that has ended is replaced by a later time of day, so none need be kept for ever.
const defaultFenceLife = 7 * 24 * time.Hour

// maxFence is the largest number: Lua counts exactly below 2^53 alone. As a time of day it lies in the year 2255.
const maxFence = 1<<53 - 1

// Fence returns the number of this grant: larger than that of every grant of the key, or of one of the keys,
// that was given before this acquire began. It is 0 without WithFencing. Give it to the guarded resource with every
// write, and let that refuse a number below the largest it has seen. It does not change.
func (k *Lock) Fence() int64 { return k.fence }

// proposal is the time of day in µs. It lets numbers grow where the nodes have lost theirs.
func (k *Lock) proposal() int64 { return max(1, k.today().UnixMicro()) }

// settleFence reports whether a quorum has stored one and the same number, the largest among the grants: then
// that is the fence, since every later quorum shares a node with this one and counts on from there.
// If not, it is still to be raised. The caller holds k.mu.
func (k *Lock) settleFence(r *round) bool {
	if k.fence > 0 { // each grant of the second round has the number
		return true
	}
	largest, stored := int64(0), 0
	for i, s := range k.spots {
		switch {
		case r.calls[i].vote != granted:
		case s.fence > largest:
			largest, stored = s.fence, 1
		case s.fence == largest:
			stored++
		}
	}
	if largest == 0 { // it was acquired without a fence
		largest, stored = k.proposal(), 0
	}
	k.fence = largest
	return stored >= k.quorum
}

// unfenced reports whether a round was won whose fence is still to be raised: the lock has not begun.
func (k *Lock) unfenced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.life == nil
}

// raiseFence makes the round that stores the fence on the nodes that hold the token. It is a renewal, so it
// is granted only by nodes that held the token all the time; the validity does not grow by it.
func (k *Lock) raiseFence(q request) *round {
	k.mu.Lock()
	defer k.mu.Unlock()
	op := fenceOp
	if q.resumes {
		op = resumeOp
	}
	return k.prepare(&round{
		op: op, args: renewArgs(k.keys, k.token, q.ttl, op.sets, k.fenceText(), k.locker.cfg.fenceLife), start: k.clock(), ttl: q.ttl, gate: noGate,
		settle: k.acquired,
	})
}

// fenceText is the fence for renewals, which repair the numbers of nodes; "" for none.
func (k *Lock) fenceText() string {
	if k.fence == 0 {
		return ""
	}
	return strconv.FormatInt(k.fence, 10)
}
