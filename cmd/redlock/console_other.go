//go:build !windows

package main

import (
	"os"

	"golang.org/x/term"
)

// canRedraw reports whether a file is a terminal.
func canRedraw(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }
