package main

import (
	"encoding/json"
	"io"
)

// writeJSON prints a result or a sweep as one document; the types result and sweepResult describe them.
func writeJSON(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // error messages are for people
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}
