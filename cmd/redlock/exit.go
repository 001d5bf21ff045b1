package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock"
)

// Exit statuses, most of them from sysexits.h.
const (
	exitNo          = 1  // the answer is no: not held, not held with this token
	exitUsage       = 64 // wrong arguments, nodes or config file
	exitNoQuorum    = 69
	exitInternal    = 70
	exitLost        = 74
	exitHeld        = 75
	exitInterrupted = 130
)

// statusError ends the program with a status of its own; without err nothing is printed.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// usageError is what a person typed wrong, with where to read about it.
func usageError(c *cobra.Command, what string) error {
	return &statusError{exitUsage, fmt.Errorf("%s (%s --help explains it)", what, c.CommandPath())}
}

// flagError is a flag that was not understood. What else pflag tells may be a password: -pSECRET, -nodes=redis://….
func flagError(c *cobra.Command, err error) error {
	what := "a flag is not understood"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		switch name := unknown.GetSpecifiedName(); {
		case unknown.GetSpecifiedShortnames() != "":
			what = fmt.Sprintf("unknown flag -%s; longer ones begin with two dashes", name)
		case !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }):
			what = "unknown flag --" + name
		}
	} else if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		what = fmt.Sprintf("--%s needs a value", missing.GetFlag().Name)
	} else if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		what = fmt.Sprintf("--%s takes %s", wrong.GetFlag().Name, takenBy[wrong.GetFlag().Value.Type()])
	}
	return usageError(c, what)
}

// takenBy says what flags of a type take.
var takenBy = map[string]string{"duration": "a duration like 30s or 5m", "int": "a number", "bool": "true or false"}

func wrongSettings(err error) error { return &statusError{exitUsage, err} }

// statusOf returns the exit status for an error.
func statusOf(err error) int {
	if own, ok := errors.AsType[*statusError](err); ok {
		return own.status
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, redlock.ErrNoQuorum):
		return exitNoQuorum
	}
	return exitInternal
}

// advice is what to do about errors of the library.
var advice = []struct {
	class error
	text  string
}{
	{redlock.ErrHeld, "redlock status tells who holds it; --wait waits"},
	{redlock.ErrNoQuorum, "redlock check tells what is wrong with the nodes"},
}

// errorLine is what a person reads: one line, with what to do.
func errorLine(err error) string {
	if err == nil || err.Error() == "" {
		return ""
	}
	text := strings.TrimPrefix(err.Error(), "redlock: ")
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	for _, a := range advice {
		if errors.Is(err, a.class) {
			text += " (" + a.text + ")"
			break
		}
	}
	return "redlock: " + printableLine(text)
}
