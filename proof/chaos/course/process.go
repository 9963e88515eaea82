package course

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
)

// A process is a client that was started.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	words chan string   // What it says on stdout.
	gone  chan struct{} // Closed when it has ended, with err.
	err   error
}

// start runs a client and hands it its configuration.
func start(command []string, cfg protocol.Config) (*process, error) {
	p := &process{
		name: cfg.Client, cmd: exec.Command(command[0], command[1:]...),
		words: make(chan string, 1024), gone: make(chan struct{}),
	}
	p.cmd.Stderr = os.Stderr
	dieWithParent(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go p.run(out, started)
	if err = <-started; err != nil {
		return nil, fmt.Errorf("course: client %s: %w", cfg.Client, err)
	}
	return p, p.tell(cfg)
}

// run starts the process and waits for its end, on one thread: it is the thread that counts as the parent.
func (p *process) run(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.words <- lines.Text()
		}
	})
	read.Wait()
	p.err = p.cmd.Wait()
	close(p.gone)
}

// tell sends a line to the process.
func (p *process) tell(v any) error {
	_, err := p.stdin.Write(protocol.Line(v))
	return err
}

// hears waits until the process says a word, and reports whether it has.
func (p *process) hears(word string, end <-chan struct{}) bool {
	for {
		select {
		case said := <-p.words:
			if said == word {
				return true
			}
		case <-p.gone:
			return false
		case <-end:
			return false
		}
	}
}

// stops reports whether the process has finished its work until the end.
func (p *process) stops(end <-chan struct{}) bool {
	return p.tell(protocol.Command{Do: protocol.Stop}) == nil && p.hears(protocol.Done, end)
}

// kill ends the process at once, also one that is frozen.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}
