package testcluster

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child process.
type Process struct {
	Cmd  *exec.Cmd
	Gone <-chan struct{} // Closed when the process has ended and was reaped.
	Err  error           // How it has ended. Valid once Gone is closed.
}

// StartProcess starts a command with its output appended to the file logPath. On Linux it
// dies with this process.
func StartProcess(cmd *exec.Cmd, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	return Start(cmd, func() {})
}

// Start starts a command. On Linux it dies with this process. read is called once it runs, and reads to
// their ends the pipes that the command has: it is reaped after that.
func Start(cmd *exec.Cmd, read func()) (*Process, error) {
	gone, started := make(chan struct{}), make(chan error)
	p := &Process{Cmd: cmd, Gone: gone}
	dieWithParent(cmd)
	go func() {
		// Where the child dies with its parent, it is the thread that counts
		// as the parent, so this thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		read()
		p.Err = cmd.Wait()
		close(gone)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Kill ends the process at once, even one that is frozen, and reaps it.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Gone
}

// Quit has a process clean up before it ends, and reaps it. It must be one that ends on SIGQUIT.
func (p *Process) Quit() {
	if p.Cmd.Process.Signal(syscall.SIGQUIT) != nil {
		_ = p.Cmd.Process.Kill()
	}
	<-p.Gone
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}
