// Package child runs a package's test binary once more, as a second process. TestMain finds in the environment what that
// is to do.
package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Process is one that runs.
type Process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// Start starts the process with a variable that has the values, a line each. It is killed if the test ends before.
func Start(t *testing.T, variable string, values ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), variable+"="+strings.Join(values, "\n"))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &Process{t, cmd, input, bufio.NewReader(output)}
}

// Line returns the next line that the process writes.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.output.ReadString('\n')
	require.NoError(p.t, err, "the process has ended")
	return strings.TrimSuffix(line, "\n")
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
	_, err := fmt.Fprintln(p.input)
	require.NoError(p.t, err)
}

// End ends the input. The process has to end then, without a word.
func (p *Process) End() {
	p.t.Helper()
	require.NoError(p.t, p.input.Close())
	rest, err := io.ReadAll(p.output)
	require.NoError(p.t, err)
	require.Empty(p.t, string(rest))
	require.NoError(p.t, p.cmd.Wait())
}

// Kill kills the process.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}
