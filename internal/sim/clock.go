package sim

import "time"

// nodeClock runs at its own rate and has its own idea of the time of day.
type nodeClock struct {
	begin time.Time     // true
	shift time.Duration // what it was off by then
	ppm   int           // how much faster than true time it runs
}

func (c nodeClock) now() time.Time {
	elapsed := time.Since(c.begin)
	return c.begin.Add(c.shift + elapsed + elapsed*time.Duration(c.ppm)/1_000_000)
}
