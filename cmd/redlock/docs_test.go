package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	shownCommand = regexp.MustCompile("redlock(?:\\.exe)? +(run|status|ttl|release|check)\\b([^#`\n;]*)")
	shownFlag    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

func TestEveryFlagThatTheDocsShowExists(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	root := (&app{getenv: os.Getenv}).command()
	texts := map[string]string{"--help": root.Long + root.Example}
	for _, c := range root.Commands() {
		texts["--help"] += c.Long + "\n" + c.Example + "\n"
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		texts[page] = string(text)
	}
	flags := 0
	for page, text := range texts {
		for _, shown := range shownCommand.FindAllStringSubmatch(text, -1) {
			c, _, err := root.Find([]string{shown[1]})
			require.NoError(t, err)
			ours, _, _ := strings.Cut(shown[2], " -- ")
			for _, flag := range shownFlag.FindAllStringSubmatch(ours, -1) {
				flags++
				assert.True(t, c.Flags().Lookup(flag[1]) != nil || c.InheritedFlags().Lookup(flag[1]) != nil,
					"%s: redlock %s has no --%s", page, shown[1], flag[1])
			}
		}
	}
	assert.Greater(t, flags, 20, "of all those in the examples")
}
