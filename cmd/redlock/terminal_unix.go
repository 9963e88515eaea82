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

// forward passes a signal on. The terminal's own signals go to the group without it, as that is
// in the foreground. A group that is stopped could not end, so one that ends commands comes with SIGCONT.
func (j *job) forward(sig syscall.Signal) {
	switch sig {
	case syscall.SIGCONT:
		j.resume()
		return
	case syscall.SIGTSTP:
		j.suspend = true
	}
	j.signal(sig)
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		if j.holds() { // It is killed while it is stopped otherwise.
			j.signal(syscall.SIGCONT)
		}
	}
}

// stopped is about a command that was stopped: by Ctrl-Z, or as it has used the terminal in the
// background. SIGSTOP may mean either, too: a program that restores the terminal first, as top does,
// stops itself by it. Where a shell with job control has started redlock, redlock stops as well, so
// that the shell sees a stopped job. The guard goes on.
func (j *job) stopped(sig syscall.Signal) {
	if !j.suspend && j.terminal == nil {
		return // Nobody at a keyboard has done it; the lock is kept.
	}
	j.suspend = false
	asked := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU || sig == syscall.SIGSTOP && j.terminal.inForeground()
	if asked && j.terminal.lend(j.group) {
		j.signal(syscall.SIGCONT) // Also if it has read in the moment before it got the terminal.
		return
	}
	if !orphaned() {
		j.stop()
		return
	}
	if sig == syscall.SIGSTOP {
		j.terminal.takeBack() // So that Ctrl-C reaches redlock, which has it go on and end.
		return
	}
	j.signal(syscall.SIGCONT) // As the kernel ignores Ctrl-Z where nobody could continue.
}

// stop stops redlock, until it is continued.
func (j *job) stop() {
	j.terminal.takeBack()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(0, syscall.SIGSTOP)
	<-continued
	j.resume()
}

// resume lets a stopped group go on, if it still has the lock. It is killed while it is stopped
// otherwise.
func (j *job) resume() {
	if !j.holds() {
		j.look()
		j.signal(syscall.SIGKILL)
		return
	}
	j.terminal.give(j.group)
	j.signal(syscall.SIGCONT)
}
