package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const progressEvery = 200 * time.Millisecond

// progress redraws one line on a terminal while the load runs; elsewhere it does nothing.
type progress struct {
	done  chan struct{}
	group sync.WaitGroup
}

func startProgress(w io.Writer, l *load) *progress {
	p := &progress{done: make(chan struct{})}
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return p
	}
	p.group.Go(func() { p.draw(w, l) })
	return p
}

// stop wipes the line.
func (p *progress) stop() {
	close(p.done)
	p.group.Wait()
}

func (p *progress) draw(w io.Writer, l *load) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	width := 0
	for {
		select {
		case <-p.done:
			fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
			return
		case now := <-tick.C:
			line := progressLine(l, now)
			fmt.Fprintf(w, "\r%-*s", width, line)
			width = max(width, len([]rune(line)))
		}
	}
}

func progressLine(l *load, now time.Time) string {
	locks := grouped(l.locks()) + " locks"
	if now.Before(l.from) {
		return "warming up: " + locks
	}
	whole := l.until.Sub(l.from)
	elapsed := min(now.Sub(l.from), whole)
	return fmt.Sprintf("measuring: %.1f s of %.1f s, %s", elapsed.Seconds(), whole.Seconds(), locks)
}
