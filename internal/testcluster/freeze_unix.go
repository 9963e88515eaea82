//go:build unix

package testcluster

import "syscall"

// freeze stops the process as a whole until thaw.
func (p *Process) freeze() error {
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitFrozen()
}

// thaw lets a frozen process go on.
func (p *Process) thaw() error { return p.Cmd.Process.Signal(syscall.SIGCONT) }
