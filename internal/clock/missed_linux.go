package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

var asleep = newSensor(sleepOfMachine)

func missed(now time.Time) time.Duration { return asleep.missed(now) }

// sleepOfMachine returns how long the machine has slept since it was booted. The two clocks are
// read one after the other: the least of some differences is the one that was not interrupted.
func sleepOfMachine(before, _ time.Duration) time.Duration {
	least := time.Duration(-1)
	for range 3 {
		var mono, boot unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
			return before // not seen on any kernel since 2.6.39
		}
		if d := time.Duration(boot.Nano() - mono.Nano()); least < 0 || d < least {
			least = d
		}
	}
	return least
}
