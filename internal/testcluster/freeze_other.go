//go:build !unix

package testcluster

// freeze is impossible here: there is no signal that stops a process.
func (p *process) freeze() error { return ErrUnsupported }

// thaw is impossible here, as freeze is.
func (p *process) thaw() error { return ErrUnsupported }
