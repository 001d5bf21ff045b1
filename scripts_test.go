package redlock

import (
	"crypto/sha1"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/wire"
)

func TestEveryScriptIsCutOutOfItsSectionAloneWithoutComments(t *testing.T) {
	for _, c := range []struct {
		script            wire.Script
		first, has, lacks string
	}{
		{renewScript, "local n = ARGV[4]", "PEXPIRE", "'DEL'"},
		{releaseScript, "local keys, args", "'DEL'", "PEXPIRE"},
		{acquireScript, "local keys, args", "ZADD", "'DEL'"},
	} {
		require.Contains(t, c.script.Body, c.has)
		require.NotContains(t, c.script.Body, c.lacks)
		require.True(t, strings.HasPrefix(c.script.Body, c.first), "the start of the section")
		require.Regexp(t, `\nreturn [{\w}, ]+\n?$`, c.script.Body, "the end of the section")
		for line := range strings.Lines(c.script.Body) {
			require.NotRegexp(t, `^\s*(--.*)?\s*$`, line, "a line that only travels")
			require.NotContains(t, line, "\r")
		}
	}
}

func TestTheNameOfAScriptIsTheSHA1OfWhatIsLoaded(t *testing.T) {
	for _, s := range allScripts {
		require.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(s.Body))), s.SHA)
		require.Len(t, s.SHA, 40)
	}
}

func TestEverySectionIsLoaded(t *testing.T) {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^-- script: (.*)$`).FindAllStringSubmatch(scriptsLua, -1) {
		names = append(names, m[1])
	}
	require.Len(t, allScripts, len(names))
	for i, name := range names {
		require.Equal(t, allScripts[i], script(name))
	}
	require.PanicsWithValue(t, "redlock: scripts.lua has no section nonsense", func() { script("nonsense") })
	require.Panics(t, func() { script("rene") }, "the start of a name is not a name")
}
