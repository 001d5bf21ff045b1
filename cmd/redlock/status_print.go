package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redlock-go/redlock"
)

// writeViews prints a table for people, with what single nodes have to say below its lines.
func writeViews(w io.Writer, views []view, allNodes bool) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tHELD\tTTL\tNODES\tFENCE\tTOKEN")
	for _, v := range views {
		fmt.Fprintln(t, v.row())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	lines := slices.Collect(strings.Lines(text.String()))
	var out strings.Builder
	out.WriteString(lines[0])
	for i, v := range views {
		out.WriteString(lines[i+1])
		for _, n := range v.state.Nodes {
			if allNodes || v.differs(n) {
				fmt.Fprintf(&out, "  %s: %s\n", n.Node, nodeText(n))
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (v view) row() string {
	holders := 0
	for _, n := range v.state.Nodes {
		if v.state.Held && n.Token == v.state.Token {
			holders++
		}
	}
	return strings.Join([]string{
		printable(v.state.Key), v.held(), v.ttl(),
		orDash(v.state.Held, fmt.Sprintf("%d of %d", holders, len(v.state.Nodes))),
		orDash(v.state.Fence != 0, strconv.FormatInt(v.state.Fence, 10)),
		orDash(v.state.Held, printable(v.state.Token)),
	}, "\t")
}

func (v view) held() string {
	switch {
	case v.err != nil:
		return "unknown"
	case v.state.Held:
		return "yes"
	}
	return "no"
}

func (v view) ttl() string {
	if !v.state.Held {
		return "-"
	}
	return ttlText(v.state.TTL)
}

func ttlText(ttl time.Duration) string {
	if ttl < 0 {
		return "none"
	}
	return fmt.Sprintf("%.1fs", ttl.Seconds())
}

// differs reports whether a node has something else to say than the key as a whole.
func (v view) differs(n redlock.NodeState) bool {
	return n.Err != nil || n.Token != v.state.Token
}

func nodeText(n redlock.NodeState) string {
	switch {
	case n.Err != nil:
		return printable(n.Err.Error())
	case n.Token == "" && n.TTL == 0:
		return "does not have it"
	}
	return fmt.Sprintf("holds %s for %s", printable(n.Token), ttlText(n.TTL))
}

func orDash(told bool, text string) string {
	if told {
		return text
	}
	return "-"
}

const printableRunes = 80

// printable is a text from the nodes, made fit for a terminal: others may have written it.
func printable(text string) string {
	if runes := []rune(text); len(runes) > printableRunes {
		text = string(runes[:printableRunes]) + "…"
	}
	if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// printableLine is printable for a long text of ours that has some of a node's in it.
func printableLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// keyJSON is a key in the output of --json. Times are in milliseconds; ttl_ms is -1 for a key without expiry.
type keyJSON struct {
	Key   string     `json:"key"`
	Held  *bool      `json:"held"` // null: too few nodes answered to tell
	Token string     `json:"token,omitempty"`
	Owner string     `json:"owner,omitempty"`
	TTL   *int64     `json:"ttl_ms,omitempty"`
	Fence int64      `json:"fence,omitempty"`
	Nodes []nodeJSON `json:"nodes"`
	Error string     `json:"error,omitempty"`
}

type nodeJSON struct {
	Node  string `json:"node"`
	Token string `json:"token,omitempty"`
	TTL   *int64 `json:"ttl_ms,omitempty"`
	Error string `json:"error,omitempty"`
}

func viewsJSON(views []view) []keyJSON {
	keys := make([]keyJSON, len(views))
	for i, v := range views {
		s := v.state
		k := keyJSON{Key: s.Key, Token: s.Token, Owner: s.Owner, Fence: s.Fence}
		if v.err != nil {
			k.Error = v.err.Error()
		} else {
			k.Held = &s.Held
		}
		if s.Held {
			k.TTL = millis(s.TTL)
		}
		for _, n := range s.Nodes {
			k.Nodes = append(k.Nodes, nodeStateJSON(n))
		}
		keys[i] = k
	}
	return keys
}

func nodeStateJSON(n redlock.NodeState) nodeJSON {
	j := nodeJSON{Node: n.Node, Token: n.Token}
	if n.Token != "" || n.TTL != 0 {
		j.TTL = millis(n.TTL)
	}
	if n.Err != nil {
		j.Error = n.Err.Error()
	}
	return j
}

// millis rounds down; a key without expiry stays -1.
func millis(d time.Duration) *int64 {
	ms := d.Milliseconds()
	if d < 0 {
		ms = -1
	}
	return &ms
}

// writeJSON prints a document for programs.
func writeJSON(w io.Writer, document any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}
