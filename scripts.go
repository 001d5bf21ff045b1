package redlock

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed scripts.lua
var scriptsLua string

var (
	renewScript   = script("renew")
	releaseScript = script("release")
	acquireScript = script("acquire")
	inspectScript = script("inspect")

	allScripts = []luaScript{renewScript, releaseScript, acquireScript, inspectScript}
)

// luaScript is one section of scripts.lua and the name under which a node caches it.
type luaScript struct {
	body string
	sha  string // SHA-1 in hex: what EVALSHA wants, not a matter of security
}

// script cuts the named section out of scripts.lua, without the comment lines, which
// would only travel.
func script(name string) luaScript {
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
	sum := sha1.Sum([]byte(body.String()))
	return luaScript{body: body.String(), sha: hex.EncodeToString(sum[:])}
}
