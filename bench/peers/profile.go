package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profile starts the CPU profile of one measurement of ours and returns what ends it. One file each, because a
// CPU profile cannot be interrupted while the others have their turn.
func (b *bench) profile(library string, callers, round int) (stop func() error, err error) {
	if b.cfg.cpuProfile == "" || library != nameRedlock {
		return func() error { return nil }, nil
	}
	file, err := os.Create(fmt.Sprintf("%s-%d-%d", b.cfg.cpuProfile, callers, round+1))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

func writeAllocProfile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}
