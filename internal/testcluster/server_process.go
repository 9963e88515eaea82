package testcluster

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // Closed when the process has ended and was reaped.
}

// StartProcess starts a command with its output appended to the file logPath. On Linux it
// dies with this process.
func StartProcess(cmd *exec.Cmd, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	dieWithParent(p.cmd)
	started := make(chan error, 1)
	go func() {
		// Where the child dies with its parent, it is the thread that counts
		// as the parent, so this thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		_ = log.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// Kill ends the process at once, even one that is frozen, and reaps it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Quit has a process clean up before it ends, and reaps it. It must be one that ends on SIGQUIT.
func (p *Process) Quit() {
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool { return isClosed(p.done) }
