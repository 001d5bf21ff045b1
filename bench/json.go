package main

import (
	"encoding/json"
	"io"
)

// writeJSON prints the result as one document; type result describes it.
func writeJSON(w io.Writer, r *result) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // error messages are for people
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
