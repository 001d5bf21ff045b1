//go:build !windows

package redlock

import "time"

// clockStep is by how much a reading of the clock may be late: nothing that matters beside the drift allowance.
const clockStep time.Duration = 0
