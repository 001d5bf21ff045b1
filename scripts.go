package redlock

import (
	_ "embed"
	"strings"

	"github.com/redlock-go/redlock/internal/wire"
)

//go:embed scripts.lua
var scriptsLua string

var (
	renewScript   = script("renew")
	releaseScript = script("release")
	acquireScript = script("acquire")
	inspectScript = script("inspect")

	allScripts = []wire.Script{renewScript, releaseScript, acquireScript, inspectScript}
)

// script cuts the named section out of scripts.lua, without the comment lines, which
// would only travel.
func script(name string) wire.Script {
	_, section, found := strings.Cut(scriptsLua, "-- script: "+name+"\n")
	if !found {
		panic("redlock: scripts.lua has no section " + name)
	}
	section, _, _ = strings.Cut(section, "-- script: ")
	var body strings.Builder
	for line := range strings.Lines(section) {
		if line != "\n" && !strings.HasPrefix(line, "--") {
			body.WriteString(line)
		}
	}
	return wire.ScriptOf(body.String())
}
