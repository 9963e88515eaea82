//go:build unix

package nodetest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/child"
)

// A Process is a test binary that runs once more. Its TestMain finds in the environment what it is to do.
type Process struct {
	t *testing.T
	p *child.Process
}

// Start starts the process with a variable that has the values, a line each. It is killed if the test ends before.
func Start(t *testing.T, variable string, values ...string) *Process {
	t.Helper()
	cmd := child.Self()
	cmd.Env = append(os.Environ(), variable+"="+strings.Join(values, "\n"))
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return &Process{t, p}
}

// Line returns the next line that the process writes.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.p.Line()
	require.NoError(p.t, err, "the process has ended")
	return line
}

// GoOn writes a line, for which the process waits.
func (p *Process) GoOn() {
	p.t.Helper()
	require.NoError(p.t, p.p.Say(""))
}

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

// End ends the input. The process has to end then.
func (p *Process) End() {
	p.t.Helper()
	require.NoError(p.t, p.p.Close())
}

// Kill kills the process.
func (p *Process) Kill() { p.p.Kill() }
