package sim

import "github.com/redlock-go/redlock"

// guardOptions are the options of a Locker that concern restarted nodes. Lockers use
// different ttls, so the guard has to know the largest.
func guardOptions(p plan, s Settings) []redlock.Option {
	mode := redlock.GuardAuto
	switch {
	case !s.Guard, p.unguarded:
		mode = redlock.GuardOff
	case p.strict:
		mode = redlock.GuardStrict
	}
	return []redlock.Option{redlock.WithRestartGuard(mode), redlock.WithMaxTTL(p.largestTTL())}
}
