package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// redraw shows the views in place of the ones before; where that cannot be done, below them.
func (s *status) redraw(views []view) error {
	if s.json || !s.app.redraws {
		if err := s.print(views); err != nil || s.json {
			return err
		}
		_, err := fmt.Fprintln(s.app.out)
		return err
	}
	var frame bytes.Buffer
	fmt.Fprintf(&frame, "%s, every %v; Ctrl-C ends it\n\n", time.Now().Format(time.DateTime), s.every)
	if err := writeViews(&frame, views, s.nodes); err != nil {
		return err
	}
	_, err := fmt.Fprint(s.app.out, inPlace(frame.String()))
	return err
}

const (
	home      = "\x1b[H"
	lineRest  = "\x1b[K" // wipes it
	belowRest = "\x1b[J"
)

// inPlace writes a frame over the one before without clearing the screen in between, which would flicker.
func inPlace(frame string) string {
	return home + strings.ReplaceAll(frame, "\n", lineRest+"\n") + belowRest
}
