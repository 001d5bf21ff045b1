package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func names(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestAFileIsWrittenAsAWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.html")
	require.NoError(t, writeFile(path, text("first")))
	require.NoError(t, writeFile(path, text("second")))
	require.Equal(t, "second", content(t, path))

	err := writeFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, strings.Repeat("half", 10_000))
		return errors.New("no space left on device")
	})
	require.EqualError(t, err, path+" could not be written: no space left on device; mend that or name another place")
	require.Equal(t, "second", content(t, path), "the file of before")
	require.Equal(t, []string{"a.html"}, names(t, dir), "nothing else is left behind")
}

func TestWhatCannotBeWrittenIsNamedInOneLine(t *testing.T) {
	dir := t.TempDir()
	require.EqualError(t, writeFile(dir, text("")), dir+" is a directory; give the name of a file in it")
	missing := filepath.Join(dir, "no", "a.html")
	require.EqualError(t, writeFile(missing, text("")), missing+": the directory "+filepath.Join(dir, "no")+" does not exist; create it first")

	file := filepath.Join(dir, "file")
	require.NoError(t, writeFile(file, text("x")))
	err := writeFile(filepath.Join(file, "a.html"), text(""))
	require.Error(t, err)
	require.NotContains(t, err.Error(), ".tmp")
	require.NotContains(t, err.Error(), "\n")
	if runtime.GOOS == "linux" {
		require.ErrorContains(t, writeFile("/dev/full", text("x")), "/dev/full could not be written: no space left on device")
		require.ErrorContains(t, writeFile("/proc/a.html", text("x")), "/proc/a.html") // nothing can be created there
	}
}

func TestALinkStaysOneAndModesStay(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Symlink("a", link))
	require.NoError(t, writeFile(link, text("through")))
	require.Equal(t, "through", content(t, path))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestPercentileFilesAreInTheUsualFormat(t *testing.T) {
	total := newRecorder(time.Second)
	for n := range 1000 {
		total.note(acquire, time.Duration(n+1)*10*time.Microsecond, nil)
	}
	prefix := filepath.Join(t.TempDir(), "run")
	require.NoError(t, writePercentiles(prefix, total))
	require.Len(t, names(t, filepath.Dir(prefix)), int(operations))

	lines := strings.Split(content(t, prefix+"-acquire.hgrm"), "\n")
	require.Regexp(t, `^ +Value +Percentile TotalCount 1/\(1-Percentile\)$`, lines[0])
	require.Empty(t, lines[1])
	require.Regexp(t, `^ +0\.010 0\.000000000000 +1 +1\.00$`, lines[2], "milliseconds")
	require.Contains(t, strings.Join(lines, "\n"), " 0.500000000000        ")
	require.Regexp(t, `^ +(9\.9\d\d|10\.0\d\d) 1\.000000000000 +1000 +inf$`, lines[len(lines)-5])
	require.Regexp(t, `^#\[Mean    = +5\.0\d\d, StdDeviation   = +2\.8\d\d\]$`, lines[len(lines)-4])
	require.Regexp(t, `^#\[Max     = +(9\.9|10\.0)\d\d, Total count    = +1000\]$`, lines[len(lines)-3])
	require.Equal(t, "#[Unit    = milliseconds, Operation = acquire]", lines[len(lines)-2])

	empty := content(t, prefix+"-full-cycle.hgrm")
	require.Contains(t, empty, "Operation = full cycle")
	require.Regexp(t, `Max     = +0\.000, Total count    = +0\]`, empty)
}

func TestAMeasurementIsPrintedEvenIfItsFilesCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	status, stdout, stderr := runFor(t, t.Context(), "-d", "50ms", "-report", dir, "-hgrm", filepath.Join(dir, "no", "x"))
	require.Equal(t, exitNothing, status)
	require.Contains(t, stdout, "rate/s")
	require.Contains(t, stderr, "bench: -report: "+dir+" is a directory; give the name of a file in it\n")
	require.Contains(t, stderr, "bench: -hgrm: "+filepath.Join(dir, "no", "x-acquire.hgrm")+": the directory ")

	status, stdout, stderr = runFor(t, t.Context(), "-d", "50ms", "-report", filepath.Join(dir, "a.html"), "-hgrm", filepath.Join(dir, "x"))
	require.Equal(t, exitMeasured, status, stderr)
	require.Contains(t, stdout, "rate/s")
	require.Len(t, names(t, dir), 5)

	status, _, stderr = runFor(t, t.Context(), "-report", "")
	require.Equal(t, exitUsage, status)
	require.Contains(t, stderr, "the name of a file")
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
