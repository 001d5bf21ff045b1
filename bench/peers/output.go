package main

import (
	"fmt"
	"io"
	"strings"
)

// output is where results go. Tables are the same in a terminal and in a document; what stands between them differs.
type output struct {
	io.Writer
	markdown bool
}

// A cause is why a row of a table has failures, for one of them.
type cause struct {
	row string
	err error
}

type causes []cause

func (all *causes) add(row string, err error) {
	if err != nil {
		*all = append(*all, cause{row, err})
	}
}

// print comes below a table. In Markdown a line right below one would be a row of it, and an error's text could
// hold marks.
func (all causes) print(out output) {
	if out.markdown && len(all) > 0 {
		fmt.Fprintln(out)
	}
	for _, c := range all {
		if out.markdown {
			fmt.Fprintf(out, "- %s failed with, for one: %s\n", c.row, codeSpan(fmt.Sprintf("%.300v", c.err)))
		} else {
			fmt.Fprintf(out, "%s failed with, for one: %.300v\n", c.row, c.err)
		}
	}
}

// codeSpan shows a text as it is. Line breaks would end a list's line, backticks the span.
func codeSpan(text string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "'") + "`"
}
