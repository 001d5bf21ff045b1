package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redlock-go/redlock"
)

// writeReport prints a check-up for people: a table of the nodes, then the findings.
func writeReport(w io.Writer, r *redlock.Report) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tVERSION\tROLE\tUPTIME\tROUND TRIP\tCLOCK\tPERSISTENCE\tEVICTION\tCONNECTIONS")
	for _, n := range r.Nodes {
		fmt.Fprintln(t, nodeRow(n))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\n", findingCounts(r))
	for _, f := range grouped(r.Findings) {
		head := fmt.Sprintf("%s  %s  %s", strings.ToUpper(f.Severity.String()), f.Code, f.Node)
		fmt.Fprintf(&b, "\n%s\n%s", strings.TrimSpace(head), indented(printableLine(f.Text)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// grouped makes one of what is said of several nodes in the same words.
func grouped(all []redlock.Finding) (groups []redlock.Finding) {
	for _, f := range all {
		at := slices.IndexFunc(groups, func(g redlock.Finding) bool {
			return g.Severity == f.Severity && g.Code == f.Code && g.Text == f.Text
		})
		if at < 0 {
			groups = append(groups, f)
			continue
		}
		groups[at].Node += ", " + f.Node
	}
	return groups
}

func nodeRow(n redlock.NodeReport) string {
	return strings.Join([]string{
		n.Node, printable(n.Version), printable(n.Role), uptimeText(n.Uptime), millisText(n.RoundTrip), clockText(n),
		printable(n.Persistence), printable(n.Eviction), connectionsText(n),
	}, "\t")
}

const unknown = "unknown"

func uptimeText(d time.Duration) string {
	switch days := int(d.Hours()) / 24; {
	case d < 0:
		return unknown
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, int(d.Hours())%24)
	}
	return d.Round(time.Second).String()
}

func millisText(d time.Duration) string {
	if d < 0 {
		return unknown
	}
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 2, 64) + "ms"
}

// clockText tells no offset where there may be none.
func clockText(n redlock.NodeReport) string {
	switch {
	case n.ClockError < 0:
		return unknown
	case n.ClockOffset.Abs() <= n.ClockError:
		return "equal"
	case n.ClockOffset.Abs() < time.Second:
		return fmt.Sprintf("%+dms", n.ClockOffset.Milliseconds())
	}
	return fmt.Sprintf("%+.1fs", n.ClockOffset.Seconds())
}

func connectionsText(n redlock.NodeReport) string {
	number := func(n int) string {
		if n < 0 {
			return unknown
		}
		return strconv.Itoa(n)
	}
	if n.Connections < 0 && n.MaxConnections < 0 {
		return unknown
	}
	return number(n.Connections) + " of " + number(n.MaxConnections)
}

const (
	indent    = "    "
	textWidth = 100
)

// indented breaks a text into lines.
func indented(text string) string {
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		length := len([]rune(word))
		switch {
		case width == 0:
			b.WriteString(indent)
			width = len(indent)
		case width+1+length > textWidth:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += length
	}
	return b.String() + "\n"
}

// reportDocument is the output of --json. Times are in milliseconds; null stands for what is not known.
type reportDocument struct {
	Nodes    []nodeReportJSON  `json:"nodes"`
	Findings []redlock.Finding `json:"findings"`
}

type nodeReportJSON struct {
	Node           string   `json:"node"`
	Error          string   `json:"error,omitempty"`
	Version        string   `json:"version"`
	RunID          string   `json:"run_id"`
	Role           string   `json:"role"`
	Uptime         *float64 `json:"uptime_ms"`
	RoundTrip      *float64 `json:"round_trip_ms"`
	ClockOffset    *float64 `json:"clock_offset_ms"`
	ClockError     *float64 `json:"clock_error_ms"`
	Persistence    string   `json:"persistence"`
	Eviction       string   `json:"eviction"`
	MaxMemory      *int64   `json:"maxmemory_bytes"`
	Connections    *int     `json:"connections"`
	MaxConnections *int     `json:"max_connections"`
	Replicas       *int     `json:"replicas"`
}

func reportJSON(r *redlock.Report) reportDocument {
	d := reportDocument{Findings: append([]redlock.Finding{}, r.Findings...)}
	for _, n := range r.Nodes {
		j := nodeReportJSON{
			Node: n.Node, Version: n.Version, RunID: n.RunID, Role: n.Role, Persistence: n.Persistence, Eviction: n.Eviction,
			Uptime: milliseconds(n.Uptime), RoundTrip: milliseconds(n.RoundTrip), ClockError: milliseconds(n.ClockError),
			MaxMemory: known(n.MaxMemory), Connections: known(n.Connections), MaxConnections: known(n.MaxConnections), Replicas: known(n.Replicas),
		}
		if j.ClockError != nil { // offsets are negative too
			offset := float64(n.ClockOffset.Microseconds()) / 1000
			j.ClockOffset = &offset
		}
		if n.Err != nil {
			j.Error = n.Err.Error()
		}
		d.Nodes = append(d.Nodes, j)
	}
	return d
}

func milliseconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	ms := float64(d.Microseconds()) / 1000
	return &ms
}

func known[N int | int64](n N) *N {
	if n < 0 {
		return nil
	}
	return &n
}
