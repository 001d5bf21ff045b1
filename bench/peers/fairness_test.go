package main

import (
	"errors"
	"testing"
	"time"
)

func TestOutcomeIsAddedUpOverTheContenders(t *testing.T) {
	cause := errors.New("cause")
	o := outcome{served: []served{
		{grants: 5, longest: time.Second},
		{grants: 2, longest: 3 * time.Second, failed: 1, failure: cause},
		{grants: 9, failed: 2, failure: cause},
	}}
	if least, most := o.extremes(); least != 2 || most != 9 {
		t.Errorf("from %d to %d", least, most)
	}
	if o.grants() != 16 || o.failed() != 3 || o.longest() != 3*time.Second || !errors.Is(o.failure(), cause) {
		t.Errorf("%d grants, %d failed with %v, longest %v", o.grants(), o.failed(), o.failure(), o.longest())
	}
}

func TestContenderWithoutGrantsIsTheLeastServed(t *testing.T) {
	for _, served := range [][]served{{{grants: 0}, {grants: 4}}, {{grants: 4}, {grants: 0}}} {
		if least, most := (outcome{served: served}).extremes(); least != 0 || most != 4 {
			t.Errorf("%v: from %d to %d", served, least, most)
		}
	}
}
