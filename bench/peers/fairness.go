package main

import "time"

// grants adds up what all got.
func (o outcome) grants() (total int) {
	for _, s := range o.served {
		total += s.grants
	}
	return total
}

// extremes are the grants of the least and of the most served.
func (o outcome) extremes() (least, most int) {
	for i, s := range o.served {
		if i == 0 || s.grants < least {
			least = s.grants
		}
		most = max(most, s.grants)
	}
	return least, most
}

// longest is the longest single wait of any of them.
func (o outcome) longest() (longest time.Duration) {
	for _, s := range o.served {
		longest = max(longest, s.longest)
	}
	return longest
}

func (o outcome) failed() (total int) {
	for _, s := range o.served {
		total += s.failed
	}
	return total
}

// failure is one of the failed.
func (o outcome) failure() error {
	for _, s := range o.served {
		if s.failure != nil {
			return s.failure
		}
	}
	return nil
}
