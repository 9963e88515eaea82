// Package child runs a package's test binary once more, as a second process. TestMain finds in the environment what that
// is to do.
package child

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/child"
)

// A Process is one that runs.
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

// Says waits for a line that begins so, past any number of lines that are past, and returns the rest of it.
func (p *Process) Says(want, past string) (rest string) {
	p.t.Helper()
	for {
		line := p.Line()
		if rest, ok := strings.CutPrefix(line, want); ok {
			return rest
		}
		require.Equal(p.t, past, line, "waiting for %q", want)
	}
}

// GoOn writes a line, for which the process waits.
func (p *Process) GoOn() {
	p.t.Helper()
	require.NoError(p.t, p.p.Say(""))
}

// End ends the input. The process has to end then, without a word.
func (p *Process) End() {
	p.t.Helper()
	p.p.Hang()
	for line := range p.p.Lines {
		require.Empty(p.t, line)
	}
	require.NoError(p.t, p.p.Wait())
}

// Kill kills the process.
func (p *Process) Kill() { p.p.Kill() }
