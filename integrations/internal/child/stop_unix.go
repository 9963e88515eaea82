//go:build unix

package child

import (
	"syscall"

	"github.com/stretchr/testify/require"
)

// Stop has the process stand still until Continue.
func (p *Process) Stop() {
	p.t.Helper()
	require.NoError(p.t, p.p.Cmd.Process.Signal(syscall.SIGSTOP))
}

// Continue ends Stop.
func (p *Process) Continue() {
	p.t.Helper()
	require.NoError(p.t, p.p.Cmd.Process.Signal(syscall.SIGCONT))
}
