package redistest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

//go:embed shim/clock.c
var clockSource []byte

// clockLibrary compiles the library that skews a process's clocks, at its first call, and returns its bytes.
var clockLibrary = sync.OnceValues(func() ([]byte, error) { return compile(clockSource, "-shared", "-fPIC") })

const (
	compileLimit  = 30 * time.Second
	clockPageSize = 4096
)

// clock is the time one server lives in: a library to be loaded before its own, and a page in a file
// that both sides map, through which we tell the library what the clocks show.
type clock struct {
	dir    string
	page   *clockPage
	mapped []byte // what page points into
	base   int64  // the true wall clock less the true monotonic one; fixed, so that both come from one reading
}

// clockPage has its twin in shim/clock.c. A time is in nanoseconds.
type clockPage struct {
	version atomic.Uint64 // odd while the rest changes
	anchor  atomic.Int64  // true monotonic time of the last change
	shown   atomic.Int64  // what the skewed monotonic clock showed then
	wall    atomic.Int64  // what the skewed wall clock shows, less the skewed monotonic one
	rate    atomic.Uint64 // the bits of a float64
	reader  atomic.Int64  // id of the last process that began to read
}

func newClock() (*clock, error) {
	library, err := clockLibrary()
	if err != nil {
		return nil, err
	}
	c := new(clock)
	if c.dir, err = os.MkdirTemp("", "redistest-clock-"); err != nil {
		return nil, err
	}
	if err := c.fill(library); err != nil {
		return nil, errors.Join(err, c.close())
	}
	now := monotonic()
	c.base = time.Now().UnixNano() - now
	c.page.anchor.Store(now)
	c.page.shown.Store(now)
	c.set(0, 1)
	return c, nil
}

func (c *clock) fill(library []byte) error {
	if err := os.WriteFile(c.library(), library, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(c.file(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // a mapping outlives its descriptor
	if err := file.Truncate(clockPageSize); err != nil {
		return err
	}
	c.mapped, err = syscall.Mmap(int(file.Fd()), 0, clockPageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	c.page = (*clockPage)(unsafe.Pointer(&c.mapped[0]))
	return nil
}

func (c *clock) library() string { return filepath.Join(c.dir, "clock.so") }

func (c *clock) file() string { return filepath.Join(c.dir, "clock") }

// environment is what makes the loader and the library find each other.
func (c *clock) environment() []string {
	preload := c.library()
	if others := os.Getenv("LD_PRELOAD"); others != "" {
		preload += ":" + others
	}
	return []string{"LD_PRELOAD=" + preload, "REDISTEST_CLOCK=" + c.file()}
}

// args turn off the allocator's own thread: it reads the skewed wall clock and then waits for the true
// one to pass what it read, which with a clock set back makes it spin.
func (c *clock) args() []string { return []string{"--jemalloc-bg-thread", "no"} }

// readBy fails if that process does not read the clock, as where it is linked statically.
func (c *clock) readBy(pid int) error {
	if reader := c.page.reader.Load(); reader != int64(pid) {
		return fmt.Errorf("process %d does not take its time from the preloaded %s", pid, c.library())
	}
	return nil
}

// set changes the clocks without a gap: from what they show at this instant they go on at the new rate.
// One call at a time.
func (c *clock) set(offset time.Duration, rate float64) {
	// The version is odd before now is read: a reader that got through before has an earlier now than
	// ours, one that comes later waits, so that none sees the clock go back.
	c.page.version.Add(1)
	now := monotonic()
	elapsed := float64(now-c.page.anchor.Load()) * math.Float64frombits(c.page.rate.Load())
	c.page.shown.Add(int64(elapsed))
	c.page.anchor.Store(now)
	c.page.rate.Store(math.Float64bits(rate))
	c.page.wall.Store(c.base + int64(offset))
	c.page.version.Add(1)
}

// close removes the files. The server must have ended.
func (c *clock) close() error {
	var err error
	if c.mapped != nil {
		err = syscall.Munmap(c.mapped)
		c.mapped, c.page = nil, nil
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// monotonic reads the clock that the library reads: package time has no way to its bare value.
func monotonic() int64 {
	const clockMonotonic = 1
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(fmt.Sprintf("redistest: reading CLOCK_MONOTONIC: %v", errno)) // it exists on every Linux
	}
	return t.Nano()
}

// compile returns what the C compiler makes of a source.
func compile(source []byte, flags ...string) (output []byte, err error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		compiler, err = exec.LookPath("gcc")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	dir, err := os.MkdirTemp("", "redistest-cc-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	in, out := filepath.Join(dir, "in.c"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, source, 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileLimit)
	defer cancel()
	command := exec.CommandContext(ctx, compiler, append(flags, "-O2", "-o", out, in)...)
	if printed, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redistest: compiling with %s: %w; it printed:\n%s", compiler, err, printed)
	}
	return os.ReadFile(out)
}
