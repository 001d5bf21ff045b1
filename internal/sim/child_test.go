package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
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

// module is what the import paths of the library begin with.
const module = "github.com/redlock-go/redlock"

// seeding makes the library's source of jitter, and the order of its workers, functions of the
// virtual time, and gives each locker the clocks that the simulator keeps for it (package jitter).
var seeding = []mutation{
	{anyGo, `"math/rand/v2"`, `rand "` + module + `/internal/sim/jitter"`},
	{"wait.go", "rand.Float64)", "func() float64 { return rand.Float64For(w.owner) })"},
	{"node.go", "runtime.Gosched()", "rand.Yield(runtime.Gosched, n.index)"},
	{"node.go", "	defer close(n.exited)\n", "	defer close(n.exited)\n	rand.Yield(nil, n.index)\n"}, // at the start
	{"redlock.go", "import (\n", "import (\n	rand \"" + module + "/internal/sim/jitter\"\n"},
	{"redlock.go", "today: time.Now,", "today: rand.Today(cfg.owner),"},
	{"redlock.go", "clock.Now", "rand.Clock(cfg.owner)"},
	{"redlock.go", "type Locker struct {", "var _ clock.Instant\n\ntype Locker struct {"}, // the import is used still
}

// anyGo stands for every Go file of the module.
const anyGo = "*.go"

// mutation replaces a text in a file of the library, which is named by its path from the module's root. It
// stands there exactly once; but all places are replaced for seeding.
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
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	replace, used := make(map[string]string), make(map[string]bool)
	for _, file := range librarysFiles(t) {
		before, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		after := seeded(t, file, string(before))
		for _, m := range mutations {
			if m.file == file {
				used[file], after = true, m.apply(t, after)
			}
		}
		if after == string(before) {
			continue
		}
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "+"))
		replace[filepath.Join(absolute, filepath.FromSlash(file))] = copied
		write(t, copied, []byte(after))
	}
	for _, m := range mutations {
		if !used[m.file] {
			t.Fatalf("there is no %s any more; adapt the control to the library", m.file)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), list)
	return filepath.Join(dir, "overlay.json")
}

// librarysFiles returns the paths of Go and Lua files from the module's root, without those of tests, of other
// modules and of the simulator itself.
func librarysFiles(t *testing.T) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch _, module := os.Stat(filepath.Join(root, path, "go.mod")); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (module == nil || path == "internal/sim" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".lua"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of the library in %s: %v", root, err)
	}
	return files
}

// seeded makes the replacements of seeding in the text of a file.
func seeded(t *testing.T, file, text string) string {
	t.Helper()
	for _, m := range seeding {
		switch {
		case m.file == anyGo && strings.HasSuffix(file, ".go"):
		case m.file != file:
			continue
		case !strings.Contains(text, m.old):
			t.Fatalf("%s has not got %q any more; adapt seeding to the library", m.file, m.old)
		}
		text = strings.ReplaceAll(text, m.old, m.new)
	}
	return text
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
