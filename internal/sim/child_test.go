package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const root = "../.." // the library

// seeding makes the library's source of jitter, and the order of its workers, functions of the
// virtual time, and gives lockers wall clocks of their own.
var seeding = []mutation{
	{"*.go", `"math/rand/v2"`, `rand "github.com/redlock-go/redlock/internal/sim/jitter"`},
	{"wait.go", "rand.Float64)", "func() float64 { return rand.Float64For(w.owner) })"},
	{"node.go", "runtime.Gosched()", "rand.Yield(runtime.Gosched, n.index)"},
	{"node.go", "	defer close(n.exited)\n", "	defer close(n.exited)\n	rand.Yield(nil, n.index)\n"}, // at the start
	{"redlock.go", "import (\n", "import (\n	rand \"github.com/redlock-go/redlock/internal/sim/jitter\"\n"},
	{"redlock.go", "today: time.Now,", "today: rand.Today(cfg.owner),"},
}

// mutation replaces a text that stands exactly once in a file of the library.
type mutation struct{ file, old, new string }

// child is a build of this package's tests over a copy of the library.
type child struct {
	t      *testing.T
	binary string
}

// build compiles the tests over the library as it is, but for the mutations and for the
// source of its jitter, which depends on the virtual time alone.
func build(t *testing.T, race bool, mutations ...mutation) *child {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command: the library's jitter cannot be seeded in this process")
	}
	dir := t.TempDir()
	c := &child{t, filepath.Join(dir, "sim.test.exe")}
	args := []string{"test", "-c", "-vet=off", "-overlay", overlay(t, dir, mutations), "-o", c.binary}
	if race {
		args = append(args, "-race")
	}
	if output, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return c
}

// overlay writes the changed files to dir, and the list of them that go build -overlay takes.
func overlay(t *testing.T, dir string, mutations []mutation) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*.[gl][ou]*")) // .go and .lua
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of the library in %s: %v", root, err)
	}
	replace := make(map[string]string)
	for _, file := range files {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		after := string(before)
		for _, m := range seeding {
			if ok, _ := filepath.Match(m.file, filepath.Base(file)); !ok {
				continue
			}
			if m.file == filepath.Base(file) && !strings.Contains(after, m.old) {
				t.Fatalf("%s has not got %q any more; adapt seeding to the library", m.file, m.old)
			}
			after = strings.ReplaceAll(after, m.old, m.new)
		}
		for _, m := range mutations {
			if m.file == filepath.Base(file) {
				after = m.apply(t, after)
			}
		}
		if strings.HasSuffix(file, "_test.go") || after == string(before) {
			continue
		}
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, filepath.Base(file))
		write(t, replace[path], []byte(after))
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), list)
	return filepath.Join(dir, "overlay.json")
}

func (m mutation) apply(t *testing.T, text string) string {
	t.Helper()
	if n := strings.Count(text, m.old); n != 1 {
		t.Fatalf("%s has the text to mutate %d times, not once:\n%s\nadapt the control to the library", m.file, n, m.old)
	}
	return strings.Replace(text, m.old, m.new, 1)
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs TestSeeds in as many processes as there are processors: one thread each is faster
// than two that share a bubble. It returns what they printed, and whether one has failed, which
// ends the others.
func (c *child) run(environment ...string) (output string, failed bool) {
	c.t.Helper()
	processes := min(runtime.GOMAXPROCS(0), number(c.t, envSeeds, usualSeeds()))
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	outputs := make([]bytes.Buffer, processes)
	var group sync.WaitGroup
	var fails atomic.Bool
	for i := range processes {
		cmd := exec.CommandContext(ctx, c.binary, "-test.run", "^TestSeeds$")
		cmd.Env = append(append(os.Environ(), "GOGC=400"), environment...)
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1", envChild+"=1", fmt.Sprintf("%s=%d/%d", envShare, i, processes))
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		group.Go(func() {
			if err := cmd.Run(); err != nil && ctx.Err() == nil {
				fmt.Fprintln(&outputs[i], err)
				fails.Store(true)
				stop()
			}
		})
	}
	group.Wait()
	for i := range outputs {
		output += outputs[i].String()
	}
	return output, fails.Load()
}
