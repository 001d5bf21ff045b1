package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes a file as a whole or leaves what is there as it is: a reader never meets half a file. Pipes
// and devices are written to, not replaced. An error names the path and says what to do, in one line.
func writeFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory; give the name of a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return explained(path, writeThrough(path, write))
	case err == nil:
		return explained(path, replaceFile(path, info.Mode().Perm(), write))
	}
	return explained(path, replaceFile(path, 0, write))
}

func writeThrough(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(file, write), file.Close())
}

// replaceFile writes beside the target, which makes the last step, the renaming, possible and atomic.
// Without a mode the file gets the one that a new file has.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved // the link stays one
	}
	temporary := filepath.Join(filepath.Dir(path), ".redlock-bench-"+rand.Text()[:8]+".tmp")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = buffered(file, write)
	if err == nil && mode != 0 {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync() // some systems tell of a full disk only here
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // the first error is the one to tell
	}
	return err
}

func buffered(file *os.File, write func(io.Writer) error) error {
	buffer := bufio.NewWriter(file)
	if err := write(buffer); err != nil {
		return err
	}
	return buffer.Flush()
}

// explained drops the name of the temporary file, which nobody knows, and adds what to do.
func explained(path string, err error) error {
	var (
		ofPath *fs.PathError
		ofLink *os.LinkError
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: the directory %s does not exist; create it first", path, filepath.Dir(path))
	case errors.As(err, &ofPath):
		err = ofPath.Err
	case errors.As(err, &ofLink):
		err = ofLink.Err
	}
	return fmt.Errorf("%s could not be written: %w; mend that or name another place", path, err)
}
