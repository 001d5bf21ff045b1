package redlock

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var listedCode = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|")

func TestThePageOfCheckListsTheCodesThatThereAre(t *testing.T) {
	page, err := os.ReadFile("docs/check.md")
	require.NoError(t, err)
	var listed, codes []string
	for _, found := range listedCode.FindAllSubmatch(page, -1) {
		listed = append(listed, string(found[1]))
	}
	for _, r := range rules {
		codes = append(codes, r.code)
	}
	require.Equal(t, codes, listed, "in the same order")
}
