//go:build unix && !linux && !freebsd

package main

import "syscall"

// dieWithUs cannot be had here: if we are killed by SIGKILL, the command runs on while its lock runs out.
func dieWithUs(*syscall.SysProcAttr) {}
