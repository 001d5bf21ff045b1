package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// maxHold leaves a full cycle within the longest latency that is recorded.
const maxHold = 30 * time.Second

// lockFlags adds the flags that say how a lock is asked for and kept. The function it returns checks them once all
// are parsed.
func lockFlags(flags *flag.FlagSet, s *settings) (check func() error) {
	flags.Func("hold", "", duration(&s.hold, 0, maxHold))
	flags.BoolFunc("fencing", "", func(text string) (err error) {
		if s.fencing, err = strconv.ParseBool(text); err != nil {
			return errors.New("accepted: true or false")
		}
		return nil
	})
	return func() error {
		if s.hold >= s.ttl {
			return fmt.Errorf("-hold %s is not shorter than the ttl of %s, and nothing renews a lock meanwhile: "+
				"hold it for less or give a longer -ttl", shortDuration(s.hold), shortDuration(s.ttl))
		}
		return nil
	}
}

// lockUsage is these flags' part of the help.
func lockUsage() string {
	return fmt.Sprintf(`  -hold D           how long a caller keeps each lock before it releases it; nothing renews it
                    meanwhile (default 0s; to %s, less than -ttl)
  -fencing          each lock gets a fence, a number that grows from grant to grant
`, shortDuration(maxHold))
}
