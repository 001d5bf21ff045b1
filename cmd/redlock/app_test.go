package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// invocation is one run of the program inside the test.
type invocation struct {
	env   map[string]string
	input string
	asks  bool
}

// outcome is what it came to.
type outcome struct {
	status   int
	out, err string
}

func (i invocation) run(t *testing.T, args ...string) outcome {
	t.Helper()
	env := map[string]string{"REDLOCK_CONFIG": os.DevNull} // not the one of whoever runs the tests
	for name, value := range i.env {
		env[name] = value
	}
	var out, err bytes.Buffer
	a := &app{in: strings.NewReader(i.input), out: &out, err: &err, asks: i.asks, getenv: func(name string) string { return env[name] }}
	status := a.execute(args)
	return outcome{status, out.String(), err.String()}
}

// embedded starts n nodes inside the test and returns them with an invocation on them.
func embedded(t *testing.T, n int) ([]*miniredis.Miniredis, invocation) {
	t.Helper()
	servers := make([]*miniredis.Miniredis, n)
	addrs := make([]string, n)
	for i := range servers {
		servers[i] = miniredis.RunT(t)
		servers[i].ClockTTL(true)
		addrs[i] = servers[i].Addr()
	}
	return servers, invocation{env: map[string]string{"REDLOCK_NODES": strings.Join(addrs, ",")}}
}

// put stores a token on nodes, as a plain SET does; no ttl means no expiry.
func put(t *testing.T, key, token string, ttl time.Duration, servers ...*miniredis.Miniredis) {
	t.Helper()
	for _, s := range servers {
		require.NoError(t, s.Set(key, token))
		if ttl != 0 {
			s.SetTTL(key, ttl)
		}
	}
}

func TestEveryCommandShowsExamplesForBothShells(t *testing.T) {
	root := (&app{getenv: os.Getenv}).command()
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if c.Name() == "completion" || c.Name() == "help" { // cobra's own
			continue
		}
		args := []string{c.Name(), "--help"}
		if c == root {
			args = []string{"--help"}
		}
		got := invocation{}.run(t, args...)
		assert.Zero(t, got.status)
		assert.Empty(t, got.err)
		assert.Regexp(t, `(?s)  sh: .*redlock .*  PowerShell: .*redlock `, got.out, c.Name())
		for line := range strings.Lines(c.Long) {
			assert.LessOrEqual(t, len([]rune(line)), 100, "%s: %s", c.Name(), line)
		}
	}
}

func TestCompletionsAreThere(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := invocation{}.run(t, "completion", shell)
		assert.Zero(t, got.status)
		assert.Contains(t, got.out, "redlock")
	}
}

func TestWrongArgumentsAreOneLineWithWhereToRead(t *testing.T) {
	for _, test := range []struct{ args, text string }{
		{"statu", "redlock: no such command; did you mean status? (redlock --help explains it)\n"},
		{"redis://:secret@10.0.0.1:6379", "redlock: no such command (redlock --help explains it)\n"},
		{"status", "redlock: needed: redlock status KEY… [flags] (redlock status --help explains it)\n"},
		{"status --watch --every 1ms a", "redlock: --every 1ms is below 100ms (redlock status --help explains it)\n"},
		{"ttl a b", "redlock: needed: redlock ttl KEY [flags] (redlock ttl --help explains it)\n"},
		{"release a", "redlock: either --token or --force is needed (redlock release --help explains it)\n"},
		{"release a --force --token x", "redlock: either --token or --force is needed (redlock release --help explains it)\n"},
		{"run a true", "redlock: needed: one key, then -- and the command: redlock run KEY -- command args… [flags] (redlock run --help explains it)\n"},
		{"run a --", "redlock: needed: one key, then -- and the command: redlock run KEY -- command args… [flags] (redlock run --help explains it)\n"},
		{"run a b -- true", "redlock: needed: one key, then -- and the command: redlock run KEY -- command args… [flags] (redlock run --help explains it)\n"},
		{"run --ttl 900ms a -- true", "redlock: --ttl 900ms is below 1s (redlock run --help explains it)\n"},
		{"run --ttl 3s --grace 1001ms a -- true", "redlock: --grace 1.001s is outside 0s … 1s, a third of the ttl (redlock run --help explains it)\n"},
		{"run --grace -1s a -- true", "redlock: --grace -1s is outside 0s … 6.666666666s, a third of the ttl (redlock run --help explains it)\n"},
		{"run --exit-lost -1 a -- true", "redlock: exit status -1 is outside 0 … 255 (redlock run --help explains it)\n"},
		{"run --wait soon a -- true", "redlock: --wait \"soon\" is none of 0, a duration like 30s, forever (redlock run --help explains it)\n"},
		{"run --wait -1s a -- true", "redlock: --wait \"-1s\" is none of 0, a duration like 30s, forever (redlock run --help explains it)\n"},
		{"run --exit-held 256 a -- true", "redlock: exit status 256 is outside 0 … 255 (redlock run --help explains it)\n"},
		{"status -nodes=redis://:secret@10.0.0.1 a", "redlock: unknown flag -n; longer ones begin with two dashes (redlock status --help explains it)\n"},
		{"status -psecret a", "redlock: unknown flag -p; longer ones begin with two dashes (redlock status --help explains it)\n"},
		{"status --password=secret a", "redlock: unknown flag --password (redlock status --help explains it)\n"},
		{"status --redis://:secret@10.0.0.1 a", "redlock: a flag is not understood (redlock status --help explains it)\n"},
		{"status --=redis://:secret@10.0.0.1 a", "redlock: a flag is not understood (redlock status --help explains it)\n"},
		{"status --node-timeout redis://:secret@10.0.0.1 a", "redlock: --node-timeout takes a duration like 30s or 5m (redlock status --help explains it)\n"},
		{"status --json=secret a", "redlock: --json takes true or false (redlock status --help explains it)\n"},
		{"run --exit-held secret a -- true", "redlock: --exit-held takes a number (redlock run --help explains it)\n"},
		{"status a --nodes", "redlock: --nodes needs a value (redlock status --help explains it)\n"},
		{"run --max-hold 5s a -- true", "redlock: MaxHold: 5s is outside ttl (20s) … 8784h0m0s\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := invocation{env: map[string]string{"REDLOCK_NODES": "127.0.0.1:1"}}.run(t, strings.Fields(test.args)...)
			assert.Equal(t, outcome{exitUsage, "", test.text}, got)
		})
	}
	got := invocation{}.run(t, "status", "")
	assert.Equal(t, exitUsage, got.status)
	assert.Contains(t, got.err, "an empty key")
}

func TestExitStatusesAreWhatScriptsRelyOn(t *testing.T) {
	assert.Equal(t, []int{1, 64, 69, 70, 74, 75, 126, 127, 130},
		[]int{exitNo, exitUsage, exitNoQuorum, exitInternal, exitLost, exitHeld, exitCannotExecute, exitNotFound, exitInterrupted})
}

func TestAnErrorIsOneLineWhateverANodeSays(t *testing.T) {
	assert.Equal(t, "redlock: a\uFFFD[2J; b\uFFFDc", errorLine(errors.New("redlock: a\x1b[2J\nb\rc\n")))
	assert.Empty(t, errorLine(nil))
}

func TestNodesComeFromTheFlagTheEnvironmentOrTheFile(t *testing.T) {
	servers, _ := embedded(t, 3)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("nodes:\n  - redis://"+servers[2].Addr()+"\nprefix: 'app:'\nnode-timeout: 300ms\n"), 0o600))
	i := invocation{env: map[string]string{"REDLOCK_CONFIG": config}}

	nodes := func(args ...string) string {
		got := i.run(t, append(args, "status", "--all-nodes", "job")...)
		require.Zero(t, got.status, got.err)
		return got.out
	}
	put(t, "app:job", "file", time.Minute, servers[2])
	assert.Contains(t, nodes(), servers[2].Addr()+": holds file")
	assert.Contains(t, nodes("--prefix", "other:"), servers[2].Addr()+": does not have it")
	assert.Contains(t, nodes("--prefix", ""), servers[2].Addr()+": does not have it")
	put(t, "job", "plain", time.Minute, servers[2])
	assert.Contains(t, nodes("--prefix", ""), servers[2].Addr()+": holds plain")

	got := i.run(t, "status", "--node-timeout", "1us", "job")
	assert.Contains(t, got.err, "WithNodeTimeout: 1µs", "the flag comes before the file")

	i.env["REDLOCK_NODES"] = " " + servers[1].Addr() + " , " + servers[2].Addr()
	assert.Contains(t, nodes(), servers[1].Addr())
	assert.Contains(t, nodes(), servers[2].Addr())
	only := nodes("--nodes", servers[0].Addr())
	assert.Contains(t, only, servers[0].Addr())
	assert.NotContains(t, only, servers[1].Addr())

	i.env["REDLOCK_CONFIG"] = "" // the default one, which need not be there
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("AppData", t.TempDir())
	assert.Contains(t, nodes(), servers[1].Addr())
	t.Setenv("HOME", config) // of users that have none it is often a file
	assert.Contains(t, nodes(), servers[1].Addr())
}

func TestNodesThatCannotBeUsedAreNamedWithTheirSource(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, test := range []struct {
		name string
		env  map[string]string
		args []string
		text string
	}{
		{"none", nil, nil, "no nodes given"},
		{"a bad one", nil, []string{"--nodes", "10.0.0.1:6379,http://10.0.0.2"}, "--nodes: urls[1]: not of the form"},
		{"twice", map[string]string{"REDLOCK_NODES": "a:1,a:1"}, nil, "REDLOCK_NODES: urls[0] and urls[1]: both are a:1"},
		{"no file", nil, []string{"--config", missing}, "config file: open " + missing},
		{"a bad timeout", map[string]string{"REDLOCK_NODES": "a:1"}, []string{"--node-timeout", "1us"}, "WithNodeTimeout: 1µs is outside"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := invocation{env: test.env}.run(t, append(test.args, "status", "job")...)
			assert.Equal(t, exitUsage, got.status)
			assert.Contains(t, got.err, test.text)
			assert.Equal(t, 1, strings.Count(got.err, "\n"))
		})
	}
}

func TestPasswordsAreTakenFromEverywhereButTheCommandLineAndNeverShown(t *testing.T) {
	servers, i := embedded(t, 2)
	for _, s := range servers {
		s.RequireUserAuth("locks", "se cret/#1")
		put(t, "job", "me", time.Minute, s)
	}
	addrs := servers[0].Addr() + "," + servers[1].Addr()
	inURLs := "redis://locks:se%20cret%2F%231@" + servers[0].Addr() + ",redis://locks:se%20cret%2F%231@" + servers[1].Addr()
	works := func(i invocation, args ...string) {
		t.Helper()
		got := i.run(t, append(args, "status", "job")...)
		assert.Zero(t, got.status, got.err)
		assert.Contains(t, got.out, "2 of 2")
	}
	works(invocation{env: map[string]string{"REDLOCK_NODES": inURLs}})
	works(invocation{env: map[string]string{"REDLOCK_NODES": inURLs, "REDLOCK_PASSWORD": "that of nodes without one"}})
	works(invocation{env: map[string]string{"REDLOCK_USERNAME": "locks", "REDLOCK_PASSWORD": "se cret/#1"}}, "--nodes", addrs)
	works(invocation{env: map[string]string{"REDLOCK_PASSWORD": "se cret/#1"}}, "--nodes", "redis://locks@"+servers[0].Addr()+",redis://locks@"+servers[1].Addr())
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("nodes: ["+addrs+"]\nusername: locks\npassword: 'se cret/#1'\n"), 0o600))
	works(invocation{}, "--config", config)

	refused := func(i invocation, args ...string) {
		t.Helper()
		got := i.run(t, append(args, "status", "job")...)
		assert.NotZero(t, got.status)
		assert.NotContains(t, got.err+got.out, "cret")
		assert.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
	}
	refused(i)
	refused(i, "--nodes", inURLs)
	refused(i, "--nodes", "redis://locks:se cret@"+servers[0].Addr())
	refused(invocation{env: map[string]string{"REDLOCK_PASSWORD": "wrong secret"}}, "--nodes", addrs)
	refused(invocation{env: map[string]string{"REDLOCK_NODES": "redis://:s#ecret@10.0.0.1"}})
	refused(invocation{}, "--nodess", "redis://:secret@10.0.0.1")
	for _, text := range []string{"nodes: redis://:secret@10.0.0.1\n", "nodes:\n  - a:1\npasswort: secret\n", "password: [secret]\n", "password: 'secret\n", "node-timeout: secret\n"} {
		require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
		refused(invocation{}, "--config", config)
	}
}

func TestTheConfigFileSaysWhereItIsWrong(t *testing.T) {
	_, err := parseConfig([]byte("nodes: [a:1]\nprefix: x\nport: 1\n"))
	assert.ErrorContains(t, err, "not understood at line 3; it may have nodes (a list)")
	s, err := parseConfig([]byte("nodes: [a:1]\nnode-timeout: 1s\n"))
	require.NoError(t, err)
	assert.Equal(t, settings{Nodes: []string{"a:1"}, NodeTimeout: time.Second}, s)
	_, err = parseConfig([]byte("nodes: [a:1]\n---\nnodes: [b:1]\n"))
	assert.ErrorContains(t, err, "more than one document")
	s, err = parseConfig([]byte("nodes: [a:1]\n---\n"))
	require.Error(t, err, "an empty one too")
	s, err = parseConfig(nil)
	require.NoError(t, err)
	assert.Equal(t, settings{}, s)
}
