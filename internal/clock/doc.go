// Package clock measures elapsed time for locks. Its clock goes on while the machine is suspended,
// and does not follow a wall clock that somebody sets.
//
// Go's own monotonic clock stops during a suspension on most systems. A lock that is measured by
// it looks valid after the machine has slept, although its keys have long expired. The wall clock
// goes on, but NTP and operators set it, forwards and backwards.
//
//   - Linux: the monotonic clock, and beside it the time that CLOCK_BOOTTIME is ahead of
//     CLOCK_MONOTONIC, which is the time that the machine has slept.
//   - Windows: Go's monotonic clock is the interrupt time there, which counts suspensions.
//   - Elsewhere: a wall clock that runs ahead of the monotonic clock is taken for a suspension. So
//     a wall clock that is set forward there ends locks too early, never too late.
//
// # Cost
//
// Reading CLOCK_BOOTTIME takes a system call of about 0.25 µs, and two are needed. So Now looks for
// a sign first: a suspension moves the wall clock against the monotonic one, and so does somebody
// who sets it. Only then are the other clocks read. Now takes about 50 ns, of which 45 are
// time.Now. A suspension escapes only where somebody sets the wall clock back, between two readings,
// by just the time for which the machine slept, to the millisecond.
//
// Timers of Go run on the monotonic clock. They are late after a suspension.
//
//	start := clock.Now()
//	until := start.Add(9 * time.Second)
//	fmt.Println(until.Left(clock.Now()))
//
// In a bubble of testing/synctest the clock is the virtual one: nothing is suspended there.
package clock
