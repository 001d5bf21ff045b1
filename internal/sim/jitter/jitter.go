// Package jitter stands in for math/rand/v2 in the simulated library: its numbers depend on
// nothing but the virtual moment at which they are drawn and on who draws them, so that the
// same run draws the same ones.
package jitter

import (
	"hash/fnv"
	"time"
)

// Float64 returns a number in [0, 1) that is a function of the current instant.
func Float64() float64 { return Float64For("") }

// Float64For returns a number in [0, 1) that is a function of the current instant and of a name:
// waiters that draw at the same instant get different ones.
func Float64For(name string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return float64(mix(h.Sum64()^mix(uint64(time.Now().UnixNano())))>>11) / (1 << 53)
}

// Yield stands in for yield = runtime.Gosched, which lets some of the others do some of what they have
// to do at the current instant: it lets them do all of it, and the workers of several nodes go on
// one after the other.
func Yield(yield func(), node int) { time.Sleep(time.Duration(1 + node)) }

// mix is the finalizer of SplitMix64: neighbouring instants give unrelated numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
