//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling one. A nil terminal is none.
type terminal struct {
	file *os.File
	own  int  // redlock's process group
	lent bool // the command's group is in the foreground
	may  bool // it may be from the beginning
}

// openTerminal returns the controlling terminal, if there is one. A command that reads from it
// must be in the foreground. In a pipeline the foreground stays with the pipeline at first, as
// its other programs would be stopped if they read from the terminal, as a pager does.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	may := isTerminal(os.Stdin) && !isPipe(os.Stdout) && !isPipe(os.Stderr)
	return &terminal{file: file, own: syscall.Getpgrp(), may: may}
}

// give puts the command's group into the foreground, if redlock's is there.
func (t *terminal) give(group int) {
	if t != nil && t.may {
		t.lend(group)
	}
}

// lend does the same for a command that was stopped since it needs the terminal, whatever else
// reads from there: it asks for a password, say. It reports whether the group is there now. It
// continues nobody: that could take back a Ctrl-Z of this moment.
func (t *terminal) lend(group int) bool {
	if t == nil {
		return false
	}
	now := t.foreground()
	if now == t.own && t.set(group) == nil {
		t.lent, now = true, group
	}
	return now == group
}

// inForeground reports whether redlock's group is in the foreground.
func (t *terminal) inForeground() bool { return t != nil && t.foreground() == t.own }

// takeBack puts redlock's group into the foreground again, if the command's had its place.
func (t *terminal) takeBack() {
	if t == nil || !t.lent {
		return
	}
	// A process in the background that does this is stopped, unless it ignores the signal.
	// The command has been started by now, and does not inherit that.
	signal.Ignore(syscall.SIGTTOU)
	if t.set(t.own) == nil {
		t.lent = false
	}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

func (t *terminal) set(group int) error {
	return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
}

// orphaned reports whether there is no shell that could continue redlock if it stopped: its
// parent is in another session, or nobody has put it into a group other than that of the
// session's first process, as a shell with job control does.
func orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	parents, err := unix.Getsid(os.Getppid())
	return err != nil || session != parents || session == syscall.Getpgrp()
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}
