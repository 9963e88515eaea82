//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// gateArg is the first argument of the process that becomes the command. It is no command of the
// tool.
const gateArg = "__gate"

// A gate holds the command back until the guard is ready and knows its group. A command that was
// started at once could run on without a lock, and with nobody who knows of it, if redlock were
// killed before it could name the group.
//
// The process of the command is this program at first, which waits for a byte on one pipe, and
// then becomes the command. If redlock is gone instead, so is the process. Over another pipe it
// says why the command cannot be run; the system closes that pipe when it has become the command.
type gate struct {
	group int // the process, and its group
	open  *os.File
	fails *os.File
}

// startGate starts the process in a group of its own.
func startGate(path string, args, env []string) (*gate, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	waits, open, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = waits.Close() }()
	fails, says, err := os.Pipe()
	if err != nil {
		_ = open.Close()
		return nil, err
	}
	defer func() { _ = says.Close() }()
	g := &gate{open: open, fails: fails}
	// The ends keep their numbers, as the command has redlock's other open files under theirs.
	// Nothing else is started meanwhile.
	var ends [2]string
	for i, f := range []*os.File{waits, says} {
		fd := int(f.Fd())
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		if err = errors.Join(err, unix.SetNonblock(fd, false)); err != nil {
			g.close()
			return nil, err
		}
		ends[i] = strconv.Itoa(fd)
	}
	g.group, err = syscall.ForkExec(self, append([]string{self, gateArg, ends[0], ends[1], path}, args...), &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// pass has the process become the command. The error is why it could not.
func (g *gate) pass() error {
	defer g.close()
	if _, err := g.open.Write([]byte{1}); err != nil {
		return fmt.Errorf("its process has ended: %w", err)
	}
	_ = g.open.Close()
	said := []unix.PollFd{{Fd: int32(g.fails.Fd()), Events: unix.POLLIN}}
	for said[0].Revents == 0 {
		if n, err := unix.Poll(said, 100); n == 0 && err == nil {
			_ = syscall.Kill(-g.group, syscall.SIGCONT) // A Ctrl-Z may have stopped it, of which nobody hears yet.
		}
	}
	var says [4]byte
	n, _ := g.fails.Read(says[:])
	if n == 0 {
		return nil
	}
	number, _ := strconv.Atoi(string(says[:n]))
	return syscall.Errno(number)
}

// close ends the process, unless it has become the command.
func (g *gate) close() {
	_ = g.open.Close()
	_ = g.fails.Close()
}

// gateMain is the process. It becomes the command, or returns an exit code that nobody reads.
func gateMain(args []string) int {
	if len(args) < 4 {
		return exitUsage
	}
	waits, err := strconv.Atoi(args[0])
	if err != nil {
		return exitUsage
	}
	says, err := strconv.Atoi(args[1])
	if err != nil {
		return exitUsage
	}
	unix.CloseOnExec(waits)
	unix.CloseOnExec(says)
	endWithRedlock() // If that has ended already, there is nothing to be read.
	n, err := 0, error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(waits, make([]byte, 1))
	}
	if n != 1 {
		return exitCannot // Redlock is gone, or has thought better of it.
	}
	err = syscall.Exec(args[2], args[3:], os.Environ())
	if number, ok := err.(syscall.Errno); ok { //nolint:errorlint // A system call's.
		_, _ = syscall.Write(says, []byte(strconv.Itoa(int(number))))
	}
	return exitCannot
}
