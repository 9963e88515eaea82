package testcluster

import (
	"os"
	"os/exec"
	"runtime"
)

// process is a running child process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // Closed when the process has ended and was reaped.
}

// startProcess starts path with its output appended to the file logPath, and env
// added to this process's environment.
func startProcess(path string, args, env []string, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd:  exec.Command(path, args...),
		done: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), env...)
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

// kill ends the process at once, even one that is frozen, and reaps it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool { return isClosed(p.done) }
