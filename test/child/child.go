// Package child starts a program, mostly the one that runs once more, and talks to it in lines.
package child

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A Process is one that was started. One goroutine at a time may talk to it.
type Process struct {
	Cmd   *exec.Cmd
	Lines <-chan string   // What it writes, closed at its end. It is held up once 1024 lines are unread.
	Gone  <-chan struct{} // Closed when it has ended, and all that it wrote is in Lines.

	in  io.WriteCloser
	err error // Valid once Gone is closed.
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
	lines, gone := make(chan string, 1024), make(chan struct{})
	p := &Process{Cmd: cmd, Lines: lines, Gone: gone}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	dieWithParent(cmd)
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() { // The thread that starts it counts as its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for from := bufio.NewReader(out); ; {
			line, err := from.ReadString('\n')
			if err != nil {
				break // Half a line is none.
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
		p.err = cmd.Wait()
		close(lines)
		close(gone)
	}()
	return p, <-started
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
	return p.err
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
