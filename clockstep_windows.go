package redlock

import "time"

// clockStep is by how much a reading of the clock may be late: Go reads the time that Windows keeps at its timer's
// interrupts, 64 a second unless some program asked for more.
var clockStep = time.Second / 64 // a variable for tests in virtual time, which has no steps
