package course

import (
	"fmt"
	"os/exec"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/test/child"
)

// A process is a client that was started.
type process struct {
	*child.Process
	name string
	set  []int
}

// start runs a client and hands it its configuration.
func start(command []string, cfg protocol.Config) (*process, error) {
	p, err := child.Start(exec.Command(command[0], command[1:]...))
	if err != nil {
		return nil, fmt.Errorf("course: client %s: %w", cfg.Client, err)
	}
	return &process{p, cfg.Client, cfg.Set}, p.Say(cfg)
}

// hears waits until the process says a word, and reports whether it has.
func (p *process) hears(word string, end <-chan struct{}) bool {
	for {
		select {
		case said, ok := <-p.Lines:
			if !ok || said == word {
				return ok
			}
		case <-end:
			return false
		}
	}
}

// stops reports whether the process has finished its work until the end.
func (p *process) stops(end <-chan struct{}) bool {
	return p.Say(protocol.Command{Do: protocol.Stop}) == nil && p.hears(protocol.Done, end)
}

// ends has the process exit, and reports whether it has until the end. If not, it is killed.
func (p *process) ends(end <-chan struct{}) bool {
	p.Hang()
	select {
	case <-p.Gone:
		return true
	case <-end:
		p.Kill()
		return false
	}
}
