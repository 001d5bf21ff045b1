package redlock

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Severity says how bad a Finding is.
type Severity uint8

const (
	Info     Severity = iota // worth knowing; nothing need be done
	Warning                  // costs availability or time, or will; or safety, if something else goes wrong too
	Critical                 // locks do not work on the node, or are not safe there
)

func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Critical:
		return "critical"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText makes a Severity a word in JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that Check has to say.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // what it is, for programs: the codes are listed in docs/check.md
	Node     string   `json:"node"` // as in NodeReport; "" if it is about the nodes as a whole, or this machine
	Text     string   `json:"text"` // what it means, and what to do
}

// survey is all that the findings are drawn from.
type survey struct {
	nodes       []facts
	quorum      int
	guard       GuardMode
	together    bool          // as the guard sees it, all nodes were started together
	maxTTL      time.Duration // 0 if not set
	nodeTimeout time.Duration
	drift       drift
}

// remark is what a rule found; the zero value stands for nothing.
type remark struct {
	severity Severity
	text     string
}

func info(text string, args ...any) remark     { return remark{Info, fmt.Sprintf(text, args...)} }
func warning(text string, args ...any) remark  { return remark{Warning, fmt.Sprintf(text, args...)} }
func critical(text string, args ...any) remark { return remark{Critical, fmt.Sprintf(text, args...)} }

// rules are all codes and what they stand for: in the nodes as a whole, and in each of them.
var rules = []struct {
	code  string
	whole func(s *survey) remark
	each  func(s *survey, f *facts) remark
}{
	{code: "unreachable", each: (*survey).unreachable},
	{code: "duplicate-server", each: (*survey).duplicateServer},
	{code: "even-nodes", whole: (*survey).evenNodes},
	{code: "single-node", whole: (*survey).singleNode},
	{code: "same-host", each: (*survey).sameHost},

	{code: "replica", each: (*survey).replica},
	{code: "has-replicas", each: (*survey).hasReplicas},
	{code: "cluster-mode", each: (*survey).clusterMode},
	{code: "old-version", each: (*survey).oldVersion},
	{code: "eviction", each: (*survey).eviction},
	{code: "connections-limit", each: (*survey).connectionsLimit},
	{code: "uptime-limit", each: (*survey).uptimeLimit},

	{code: "no-key-permission", each: (*survey).noKeyPermission},
	{code: "no-script-permission", each: (*survey).noScriptPermission},
	{code: "no-publish-permission", each: (*survey).noPublishPermission},
	{code: "probe-failed", each: (*survey).probeFailed},
	{code: "no-expiry-precision", each: (*survey).noExpiryPrecision},

	{code: "no-run-id", each: (*survey).noRunID},
	{code: "forgets-on-restart", each: (*survey).forgetsOnRestart},
	{code: "restarted-recently", each: (*survey).restartedRecently},

	{code: "clock-offset", whole: (*survey).clockOffsetOfAll, each: (*survey).clockOffset},
	{code: "node-timeout", each: (*survey).slowForTimeout},
}

// findings applies the rules.
func (s *survey) findings() []Finding {
	var found []Finding
	order := make(map[string]int) // the nodes as a whole come first
	for i := range s.nodes {
		order[s.nodes[i].Node] = i + 1
	}
	for _, r := range rules {
		add := func(node string, m remark) {
			if m.text != "" {
				found = append(found, Finding{m.severity, r.code, node, m.text})
			}
		}
		if r.whole != nil {
			add("", r.whole(s))
		}
		for i := 0; r.each != nil && i < len(s.nodes); i++ {
			add(s.nodes[i].Node, r.each(s, &s.nodes[i]))
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(order[a.Node], order[b.Node]),
			cmp.Compare(a.Code, b.Code),
		)
	})
	return found
}

// others returns the names of the other nodes that match, in their order.
func (s *survey) others(f *facts, match func(other *facts) bool) (names []string) {
	for i := range s.nodes {
		if other := &s.nodes[i]; other != f && match(other) {
			names = append(names, other.Node)
		}
	}
	return names
}

// isFirst reports whether f comes before all nodes of these names.
func (s *survey) isFirst(f *facts, names []string) bool {
	for i := range s.nodes {
		if &s.nodes[i] == f {
			return true
		}
		if slices.Contains(names, s.nodes[i].Node) {
			return false
		}
	}
	return false
}

// every reports whether all nodes match.
func (s *survey) every(match func(f *facts) bool) bool {
	for i := range s.nodes {
		if !match(&s.nodes[i]) {
			return false
		}
	}
	return true
}

func (s *survey) count(match func(f *facts) bool) (n int) {
	for i := range s.nodes {
		if match(&s.nodes[i]) {
			n++
		}
	}
	return n
}
