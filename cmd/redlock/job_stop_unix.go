//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

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
