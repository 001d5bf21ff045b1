//go:build linux || freebsd

package main

import "syscall"

// dieWithUs has the kernel kill the command when we are gone, even by SIGKILL: nobody would renew the lock, or end the command with it.
// It does not cover what the command has started: the kernel offers that for cgroups and pid namespaces, not for process
// groups. Nor a command that changes its user, like sudo.
func dieWithUs(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
