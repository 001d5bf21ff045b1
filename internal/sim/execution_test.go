package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocksAreReadByPosition(t *testing.T) {
	s := scripts{loaded: map[string]script{"acquire": {sets: true, enters: true}, "renew": {sets: true}, "release": {deletes: true}, "inspect": {}}}
	for command, expected := range map[string]locks{
		"set k t nx px 10": {keys: []string{"k"}, tokens: []string{"t"}},
		"evalsha acquire 1 k t 10 - 6 {k}:redlock-waiters redlock/x - 3": {
			keys: []string{"k"}, tokens: []string{"t"}, list: "{k}:redlock-waiters"},
		"evalsha acquire 4 k l {k}:redlock-fence {l}:redlock-fence t 10 5 6 - - - 3": {
			keys: []string{"k", "l"}, tokens: []string{"t", "t"}, fences: []string{"{k}:redlock-fence", "{l}:redlock-fence"}, list: "-"},
		"evalsha acquire 2 k l t 10 -": {keys: []string{"k", "l"}, tokens: []string{"t", "t"}},
		"evalsha renew 2 k {k}:redlock-fence t 10 1 5 6": {
			keys: []string{"k"}, tokens: []string{"t"}, fences: []string{"{k}:redlock-fence"}},
		"evalsha renew 2 k l t 10 1 - 6": {
			keys: []string{"k", "l"}, tokens: []string{"t", "t"}},
		"evalsha release 2 k l t redlock/x {l}:redlock-waiters redlock/x": {
			keys: []string{"k", "l"}, tokens: []string{"t", "redlock/x"}, apart: true},
		"evalsha unknown 1 k t": {},
		"evalsha inspect 1 k x": {},
		"subscribe redlock/x":   {},
	} {
		require.Equal(t, expected, s.locksOf(strings.Fields(command)), command)
	}
}
