package sim

import (
	"slices"
	"strconv"
	"strings"
)

// execution is one command that a node ran.
type execution struct {
	node   *node
	client int
	args   []string
	reply  any
	late   bool // the network had kept the command for long
	wakes  []wakeUp

	locks
	before, after []string // what the node stored under their keys, "" for nothing
	numbers       []int64  // and the numbers of these keys after it; nil where the command has nothing to do with them
}

// locks are what a command can set or delete: the keys, and the token that it has for each.
type locks struct {
	keys, tokens []string
	apart        bool     // each key is a lock of its own, with a result of its own
	fences       []string // where the numbers of the keys stand; nil if the command names none
	list         string   // that the client enters, "" for none
}

// locksOf tells the library's scripts apart by what they do: release has a token for each key; acquire and
// renew have one for all keys, behind which the names of their numbers may follow. A script that the node does not
// know does nothing.
func (s *scripts) locksOf(args []string) locks {
	if strings.EqualFold(args[0], "set") {
		return locks{keys: args[1:2], tokens: args[2:3]}
	}
	if !strings.EqualFold(args[0], "evalsha") {
		return locks{}
	}
	n, _ := strconv.Atoi(args[2])
	keys, rest := args[3:3+n], args[3+n:]
	switch script := s.loaded[args[1]]; {
	case n == 0 || len(rest) == 0:
		return locks{}
	case script.deletes:
		return locks{keys: keys, tokens: rest[:n], apart: true}
	case script.sets:
		l := locks{keys: keys}
		if i := slices.IndexFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":redlock-fence") }); i > 0 {
			l.keys, l.fences = keys[:i], keys[i:]
		}
		l.tokens = slices.Repeat(rest[:1], len(l.keys))
		if script.enters && len(rest) > 4 {
			l.list = rest[4]
		}
		return l
	}
	return locks{}
}

// has counts the keys under which values has a token.
func has(values []string, token string) (n int) {
	for _, v := range values {
		if v == token {
			n++
		}
	}
	return n
}

func (n *node) stored(keys []string) []string {
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i], _ = n.data.Get(key)
	}
	return values
}

// numbers returns the fences that are stored, 0 for none.
func (n *node) numbers(names []string) (numbers []int64) {
	for _, v := range n.stored(names) {
		number, _ := strconv.ParseInt(v, 10, 64)
		numbers = append(numbers, number)
	}
	return numbers
}
