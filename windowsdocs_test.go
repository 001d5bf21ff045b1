package redlock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProgramInTheWindowsPageBuilds(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	page, err := os.ReadFile("docs/windows.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(strings.ReplaceAll(string(page), "\r\n", "\n"), "\n```go\n")
	program, _, ended := strings.Cut(rest, "\n```\n")
	require.True(t, found && ended, "the page has a program")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program+"\n"), 0o600))
	for _, command := range [][]string{{"go", "vet", file}, {"gofmt", "-l", file}} {
		output, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Empty(t, string(output))
	}
}
