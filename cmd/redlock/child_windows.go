package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// child is a command that runs in a job object, together with all that it starts. They end with the command, and
// with us, however we end. Safe for concurrent use.
type child struct {
	cmd  *exec.Cmd
	over chan struct{}

	mu      sync.Mutex
	ended   bool
	job     windows.Handle
	process windows.Handle // keeps the process id from being given to another one; both are closed when ended is set
}

// startChild starts a command. notStartedStatus tells what an error means; nothing is left running then.
func startChild(config childConfig) (*child, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd := config.command()
	// Suspended, so that it starts nothing before it is in the job.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	process, err := admit(job, uint32(cmd.Process.Pid))
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	c := &child{cmd: cmd, over: make(chan struct{}), job: job, process: process}
	go c.wait()
	return c, nil
}

// newJob returns a job object that ends what is in it when its handle, which we alone have, is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("set the limits of a job object: %w", err), windows.CloseHandle(job))
	}
	return job, nil
}

// admit puts a suspended process into the job and has it go on.
func admit(job windows.Handle, pid uint32) (windows.Handle, error) {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	if err = windows.AssignProcessToJobObject(job, process); err != nil {
		err = fmt.Errorf("put process %d into a job object: %w", pid, err)
	} else {
		err = resume(pid)
	}
	if err != nil {
		return 0, errors.Join(err, windows.CloseHandle(process))
	}
	return process, nil
}

// resume has the threads of a suspended process go on. It has one, and those that other programs have put into it.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	resumed := 0
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		if err := resumeThread(entry.ThreadID); err != nil {
			return fmt.Errorf("resume process %d: %w", pid, err)
		}
		resumed++
	}
	if resumed == 0 {
		return fmt.Errorf("resume process %d: no thread of it was found: %w", pid, err)
	}
	return nil
}

func resumeThread(id uint32) error {
	thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, id)
	if err != nil {
		return err
	}
	_, err = windows.ResumeThread(thread)
	return errors.Join(err, windows.CloseHandle(thread))
}

func (c *child) wait() {
	defer close(c.over)
	_ = c.cmd.Wait() // status tells
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	_ = windows.CloseHandle(c.process)
	_ = windows.CloseHandle(c.job) // ends what the command has left running
}

// forward sends a Ctrl-Break, whatever the signal: a process group of its own does not hear Ctrl-C. It fails where there is no
// console. Once the command has ended it does nothing, as do terminate and kill.
func (c *child) forward(os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.cmd.Process.Pid)); err != nil {
		return fmt.Errorf("send Ctrl-Break to process group %d: %w", c.cmd.Process.Pid, err)
	}
	return nil
}

// terminate asks the command, and what it has started, to end. It does not wait, and fails where there is no console.
func (c *child) terminate() error { return c.forward(syscall.SIGTERM) }

// kill ends all of the job. It does not wait: done follows. May be called again.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	if err := windows.TerminateJobObject(c.job, 1); err != nil {
		return fmt.Errorf("terminate the job object of process %d: %w", c.cmd.Process.Pid, err)
	}
	return nil
}

// done is closed when the command has ended. What it has left running is being ended then.
func (c *child) done() <-chan struct{} { return c.over }

// status is the command's exit code, 1 after kill. To be called after done.
func (c *child) status() int { return c.cmd.ProcessState.ExitCode() }

// forwarded returns the signals that are the command's business. Windows' Ctrl-C and Ctrl-Break arrive as the first one,
// and the end of the console, of the session and of the system as the second.
func forwarded() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
