package main

import (
	"fmt"
	"strings"
	"time"
)

// maxRTT is beyond every network; the library's node timeout is far below.
const maxRTT = 10 * time.Second

// parseRTTs reads one round trip per node.
func parseRTTs(text string) ([]time.Duration, error) {
	var rtts []time.Duration
	for n, part := range strings.Split(text, ",") {
		rtt, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || rtt < 0 || rtt > maxRTT {
			return nil, fmt.Errorf("number %d, %q, is not a round trip; accepted: durations with a unit from 0s to %s, separated by commas",
				n+1, part, shortDuration(maxRTT))
		}
		rtts = append(rtts, rtt)
	}
	if len(rtts) > maxSpawn {
		return nil, fmt.Errorf("%d round trips are too many: at most %d nodes can be spawned", len(rtts), maxSpawn)
	}
	return rtts, nil
}
