package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// readConfig reads the config file; one that nobody named may be missing.
func (a *app) readConfig() (settings, error) {
	path, named := a.nodes.config, true
	if path == "" {
		path = a.getenv("REDLOCK_CONFIG")
	}
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return settings{}, nil // no home, so no file in it
		}
		path, named = filepath.Join(dir, "redlock", "config.yaml"), false
	}
	text, err := os.ReadFile(path)
	if !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) { // a home of /dev/null is not rare
		return settings{}, nil
	}
	if err != nil {
		return settings{}, wrongSettings(fmt.Errorf("config file: %w", err))
	}
	s, err := parseConfig(text)
	if err != nil {
		return settings{}, wrongSettings(fmt.Errorf("config file %s: %w", path, err))
	}
	s.source = path
	return s, nil
}

func parseConfig(text []byte) (s settings, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return settings{}, fmt.Errorf("not understood%s; it may have nodes (a list), username, password, prefix, node-timeout and max-ttl (like 200ms)", position(err))
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		return settings{}, errors.New("it holds more than one document; only one is read")
	}
	return s, nil
}

var linePattern = regexp.MustCompile(`line (\d+)`)

// position tells where the reading of a file failed, and nothing else of the error: it quotes what stands
// there, which may be a password.
func position(err error) string {
	if match := linePattern.FindStringSubmatch(err.Error()); match != nil {
		return " at line " + match[1]
	}
	return ""
}
