package testcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// dieWithParent has the kernel kill the child when the thread that starts it
// ends, so that servers don't outlive a test that panics or is killed.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitFrozen waits until the kernel has acted on a stop signal, because the
// process may still run for a moment on another processor.
func (p *Process) awaitFrozen() error {
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
		if err != nil {
			return err
		}
		// The state follows the program's name, which is in parentheses.
		if _, state, _ := bytes.Cut(stat, []byte(") ")); bytes.HasPrefix(state, []byte("T")) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the process doesn't stop")
}
