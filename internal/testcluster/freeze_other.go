//go:build !unix

package testcluster

// freeze is impossible here: there is no signal that stops a process.
func (p *Process) freeze() error { return ErrUnsupported }

// thaw is impossible here, as freeze is.
func (p *Process) thaw() error { return ErrUnsupported }
