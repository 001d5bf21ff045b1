package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// canRedraw reports whether a file is a console that understands escape sequences, which older ones do
// only once they are asked to.
func canRedraw(file *os.File) bool {
	var mode uint32
	handle := windows.Handle(file.Fd())
	if windows.GetConsoleMode(handle, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
