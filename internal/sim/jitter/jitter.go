// Package jitter stands in for math/rand/v2 in the simulated library: its numbers depend on
// nothing but the virtual moment at which they are drawn and on who draws them, so that the
// same run draws the same ones.
package jitter

import (
	"bytes"
	"hash/fnv"
	"runtime"
	"sync"
	"time"
)

var names sync.Map // goroutine → hash of its name

// As runs f on this goroutine under a name: two that draw at the same instant get different
// numbers. Goroutines without a name share one.
func As(name string, f func()) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	id := goroutine()
	names.Store(id, h.Sum64())
	defer names.Delete(id)
	f()
}

// Float64 returns a number in [0, 1) that is a function of the current instant and of the
// name of the goroutine.
func Float64() float64 {
	name, _ := names.Load(goroutine())
	salt, _ := name.(uint64)
	return float64(mix(salt^mix(uint64(time.Now().UnixNano())))>>11) / (1 << 53)
}

// goroutine returns the number of the current goroutine as runtime.Stack prints it.
func goroutine() string {
	var b [40]byte
	head, _, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte(" ["))
	return string(head)
}

// mix is the finalizer of SplitMix64: neighbouring instants give unrelated numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
