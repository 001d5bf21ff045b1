package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	roles["shell"] = shellRole
	roles["count"] = countRole
}

// shellRole is a shell with job control, for one job. It takes orders on descriptor 3 and answers each on descriptor 4.
func shellRole(command []string) {
	orders, answers := bufio.NewScanner(os.NewFile(3, "orders")), os.NewFile(4, "answers")
	s := &shell{command: command}
	for orders.Scan() {
		_, _ = fmt.Fprintln(answers, s.obey(orders.Text()))
	}
}

type shell struct {
	command []string
	job     int
}

func (s *shell) obey(order string) string {
	switch order {
	case "start", "start &":
		cmd := exec.Command(s.command[0], s.command[1:]...)
		cmd.Env = playing("run")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: order == "start"}
		if err := cmd.Start(); err != nil {
			return err.Error()
		}
		s.job = cmd.Process.Pid
	case "fg":
		setForeground(s.job)
		_ = syscall.Kill(-s.job, syscall.SIGCONT)
	case "bg":
		_ = syscall.Kill(-s.job, syscall.SIGCONT)
	case "TSTP":
		_ = syscall.Kill(s.job, syscall.SIGTSTP)
	case "TERM":
		_ = syscall.Kill(s.job, syscall.SIGTERM)
	case "foreground":
		return s.foreground()
	case "wait":
		return s.wait()
	}
	return "ok"
}

func (s *shell) foreground() string {
	switch pgid, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); {
	case err != nil:
		return err.Error()
	case pgid == s.job:
		return "job"
	case pgid == syscall.Getpgrp():
		return "shell"
	}
	return "command"
}

// wait waits for the job, and takes the terminal back like any shell.
func (s *shell) wait() string {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.job, &status, syscall.WUNTRACED, nil); err != nil {
		return err.Error()
	}
	foreground := s.foreground()
	setForeground(syscall.Getpgrp())
	if status.Stopped() {
		return "stopped, foreground: " + foreground
	}
	return fmt.Sprintf("exit %d, foreground: %s", status.ExitStatus(), foreground)
}

func setForeground(pgid int) {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pgid)
}

// countRole counts in a file as fast as it can.
func countRole(args []string) {
	f, err := os.Create(args[0])
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		_, _ = fmt.Fprintf(f, "%020d", n)
		_, _ = f.Seek(0, 0)
	}
}

// session is a terminal, and a program that leads its session.
type session struct {
	t        *testing.T
	keyboard *os.File
	screen   strings.Builder
	orders   *os.File
	answers  *bufio.Reader
}

func newTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	require.NoError(t, master.SetReadDeadline(time.Now().Add(patience)))
	return master, slave
}

// lead starts this test program in a role as the leader of a session with a terminal.
func lead(t *testing.T, environment []string, role string, args ...string) *session {
	t.Helper()
	master, slave := newTerminal(t)
	ordersR, orders, err := os.Pipe()
	require.NoError(t, err)
	answers, answersW, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, answers.SetReadDeadline(time.Now().Add(patience)))
	leader := exec.Command(testProgram(), args...)
	leader.Env = append(playing(role), environment...)
	leader.Stdin, leader.Stdout, leader.Stderr = slave, slave, slave
	leader.ExtraFiles = []*os.File{ordersR, answersW}
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// Earlier tests, or whoever runs them, have us ignore these. What we catch, the leader does not ignore.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	require.NoError(t, leader.Start())
	signal.Stop(caught)
	for _, f := range []*os.File{slave, ordersR, answersW} {
		require.NoError(t, f.Close())
	}
	t.Cleanup(func() {
		_ = orders.Close()
		_ = master.Close() // hangs up
		_ = leader.Process.Kill()
		_ = leader.Wait()
		_ = answers.Close()
	})
	return &session{t: t, keyboard: master, orders: orders, answers: bufio.NewReader(answers)}
}

// newSession has a shell whose job is the run of a command.
func newSession(t *testing.T, environment []string, command ...string) *session {
	t.Helper()
	return lead(t, environment, "shell", append([]string{testProgram()}, command...)...)
}

func script(text string) []string { return []string{"/bin/sh", "-c", text} }

func (s *session) tell(order string) string {
	s.t.Helper()
	_, err := fmt.Fprintln(s.orders, order)
	require.NoError(s.t, err)
	answer, err := s.answers.ReadString('\n')
	require.NoError(s.t, err, "after %q; the screen: %s", order, &s.screen)
	return strings.TrimSuffix(answer, "\n")
}

func (s *session) press(keys string) {
	s.t.Helper()
	_, err := s.keyboard.WriteString(keys)
	require.NoError(s.t, err)
}

// see reads the screen until a text is on it.
func (s *session) see(text string) {
	s.t.Helper()
	buffer := make([]byte, 1024)
	for !strings.Contains(s.screen.String(), text) {
		n, err := s.keyboard.Read(buffer)
		s.screen.Write(buffer[:n])
		require.NoError(s.t, err, "no %q on the screen: %s", text, &s.screen)
	}
}
