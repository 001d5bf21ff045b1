package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a Lua script, and the name under which a node caches it.
type Script struct {
	Body string
	SHA  string // SHA-1 in hex: what EVALSHA wants, not a matter of security
}

// ScriptOf names a script.
func ScriptOf(body string) Script {
	sum := sha1.Sum([]byte(body))
	return Script{Body: body, SHA: hex.EncodeToString(sum[:])}
}

// Load returns the arguments of the command that makes a node cache the script.
func (s Script) Load() []any { return []any{"script", "load", s.Body} }

// Command is what one call sends: its arguments; or a release of one key, which may travel with others in one
// command, and then has no arguments of its own.
type Command struct {
	Args    []any
	Release Release
}

// Release takes a token from a key, if it is there.
type Release struct {
	Key, Token any    // strings
	Listed     bool   // it concerns the waiting list of the key too
	Channel    string // to take off that list; "" for none
}

// SetArgs takes one free key.
func SetArgs(key, token any, ttl time.Duration) []any {
	return []any{"set", key, token, "nx", "px", ttl.Milliseconds()}
}

// RenewArgs is what renews a lock with a fence, or none where that is "". One that only resumes the lock heals nothing.
func RenewArgs(s Script, keys []any, token any, ttl time.Duration, heals bool, fence string, fenceLife time.Duration) []any {
	heal := ""
	if heals {
		heal = "1"
	}
	args := scriptArgs(s, keys, fence != "", 5)
	return append(args, token, ttl.Milliseconds(), heal, fence, fenceLife.Milliseconds())
}

// ListLife is how long a waiting list lives. A waiter that crashed leaves no longer trace than this, and one that
// still waits enters again within a back-off step.
const ListLife = 30 * time.Second

// Listing is a place in a waiting list.
type Listing struct {
	Name, Channel string
	Since         int64 // 0: now
}

// AcquireArgs takes several keys, or proposes a fence, or goes through the gate of a key.
func AcquireArgs(s Script, keys []any, token any, ttl time.Duration, proposal string, fenceLife time.Duration, at Listing) []any {
	args := scriptArgs(s, keys, proposal != "", 8)
	args = append(args, token, ttl.Milliseconds(), proposal, fenceLife.Milliseconds())
	if at.Name == "" {
		return args
	}
	first := ""
	if at.Since > 0 {
		first = strconv.FormatInt(at.Since, 10)
	}
	return append(args, at.Name, at.Channel, first, ListLife.Milliseconds())
}

// scriptArgs begins the call of a script over the keys of one lock, and their numbers, with room for more.
func scriptArgs(s Script, keys []any, fenced bool, more int) []any {
	n := len(keys)
	if fenced {
		n *= 2
	}
	args := make([]any, 0, 3+n+more)
	args = append(append(args, "evalsha", s.SHA, n), keys...)
	if fenced {
		for _, key := range keys {
			args = append(args, FenceName(key.(string)))
		}
	}
	return args
}

// ReleaseAllArgs releases the keys of one lock.
func ReleaseAllArgs(s Script, keys []any, token any) []any {
	args := scriptArgs(s, keys, false, len(keys))
	for range keys {
		args = append(args, token)
	}
	return args
}

// ReleaseArgs carries many releases in one command: a script call costs a server about as
// much as the two or three commands inside it. Those that concern a waiting list come last. The list is
// made in room if that suffices.
func ReleaseArgs(room []any, s Script, releases []Release) []any {
	listed, n := listedOf(releases), len(releases)
	args := slices.Grow(room[:0], 3+2*n+2*listed)[:3+2*n+2*listed]
	args[0], args[1], args[2] = "evalsha", s.SHA, n
	for i, r := range releases {
		args[3+i], args[3+n+i] = r.Key, r.Token
	}
	lists := args[3+2*n:]
	for i, r := range releases[n-listed:] {
		lists[i], lists[listed+i] = ListName(r.Key.(string)), r.Channel
	}
	return args
}

// AppendReleases appends the command of ReleaseArgs to b.
func AppendReleases(b []byte, s Script, releases []Release) []byte {
	listed, n := listedOf(releases), len(releases)
	b = appendHead(b, '*', int64(3+2*n+2*listed))
	b = appendInt(appendText(appendText(b, "evalsha"), s.SHA), int64(n))
	for i := range releases {
		b = appendArg(b, releases[i].Key)
	}
	for i := range releases {
		b = appendArg(b, releases[i].Token)
	}
	for _, r := range releases[n-listed:] {
		b = appendText(b, ListName(r.Key.(string)))
	}
	for _, r := range releases[n-listed:] {
		b = appendText(b, r.Channel)
	}
	return b
}

func listedOf(releases []Release) (n int) {
	for i := range releases {
		if releases[i].Listed {
			n++
		}
	}
	return n
}

// SplitReleases returns what a node said to each of n releases in one command; false if it did not say that.
func SplitReleases(v Value, n int) ([]Value, bool) {
	if v.Kind != List || len(v.List) != n {
		return nil, false
	}
	return v.List, true
}

// RefusedTogether reports whether a server may have refused several keys for being several:
// because they belong to different slots, or because the right to one of them is missing.
func RefusedTogether(v Value) bool {
	return v.Kind == Failure && (hasPrefix(v.Text, "CROSSSLOT") || hasPrefix(v.Text, "NOPERM") || hasPrefix(v.Text, "ERR"))
}

// UnknownScript reports whether the server has not got the script of a command, and so has done nothing.
func UnknownScript(v Value) bool { return v.Kind == Failure && hasPrefix(v.Text, "NOSCRIPT") }

func hasPrefix(text, code string) bool {
	rest, found := strings.CutPrefix(text, code)
	return found && (rest == "" || rest[0] == ' ')
}

// What the keys beside a lock end in, and no lock's key may.
const (
	ListSuffix  = ":redlock-waiters"
	FenceSuffix = ":redlock-fence"
)

// ListName is where the waiting list of a key stands.
func ListName(key string) string { return beside(key, ListSuffix) }

// FenceName is where the latest fence of a key stands.
func FenceName(key string) string { return beside(key, FenceSuffix) }

// beside names a key in the cluster slot of another, which the first {tag} in that one decides.
func beside(key, suffix string) string {
	_, after, found := strings.Cut(key, "{")
	if found && strings.Index(after, "}") > 0 {
		return key + suffix
	}
	return "{" + key + "}" + suffix
}
