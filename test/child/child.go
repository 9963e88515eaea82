// Package child starts a program, mostly the one that runs once more, and talks to it in lines.
package child

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A Process is one that was started. One goroutine at a time may talk to it.
type Process struct {
	*testcluster.Process
	Lines <-chan string // What it writes, closed at its end. It is held up once 1024 lines are unread.

	in io.WriteCloser
}

// Self is the command that starts the program that runs once more.
func Self(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.Command(self, args...)
}

// Start starts a command, whose errors go where those of this process do. On Linux the kernel kills it if this process
// ends before. Elsewhere it must end when its input does.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines := make(chan string, 1024)
	p, err := testcluster.Start(cmd, func() {
		defer close(lines)
		for from := bufio.NewReader(out); ; {
			line, readErr := from.ReadString('\n')
			if readErr != nil {
				return // Half a line is none.
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	})
	if err != nil {
		return nil, err
	}
	return &Process{p, lines, in}, nil
}

// Say writes a line to the process: a text as it is, anything else as JSON.
func (p *Process) Say(v any) error {
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err := io.WriteString(p.in, text+"\n")
	return err
}

// Line returns the next line that the process writes, io.EOF if it has ended.
func (p *Process) Line() (string, error) {
	line, ok := <-p.Lines
	if !ok {
		return "", io.EOF
	}
	return line, nil
}

// Hang closes the input of the process, on which it should end.
func (p *Process) Hang() { _ = p.in.Close() }

// Wait waits until the process has ended, and returns how. What nobody has read is lost.
func (p *Process) Wait() error {
	for range p.Lines { // It may have more to say.
	}
	<-p.Gone
	return p.Err
}

// Close closes the input of the process, and waits for its end.
func (p *Process) Close() error {
	p.Hang()
	return p.Wait()
}

// Kill ends the process at once, also one that is frozen.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Wait()
}
