//go:build !linux && !windows

package clock

import "time"

var asleep = newSensor(stepOfWallClock)

func missed(now time.Time) time.Duration { return asleep.missed(now) }
