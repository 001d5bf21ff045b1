package redlock

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z]\\w*)`")
	definedTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)[A-Z]\w*)\(`)
)

func TestEveryTestNamedInTheDocsExists(t *testing.T) {
	defined := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, found := range definedTest.FindAllSubmatch(source, -1) {
			defined[string(found[1])] = true
		}
		return err
	}))
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range namedTest.FindAllSubmatch(text, -1) {
			named++
			require.True(t, defined[string(found[1])], "%s names %s, which is in no test file", page, found[1])
		}
	}
	require.Greater(t, named, 50, "of all the names in the tables")
}
