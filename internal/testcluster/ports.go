package testcluster

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// A server that is stopped keeps its port for when it is started again. Nothing of the system holds it meanwhile: tests
// that run beside would start a server of theirs on it, which clients take for the one that is stopped. So a process takes
// ports from blocks of its own, and listens on the first one of each block as long as it lives.

const (
	// Ports below the usual ephemeral ranges can't be taken by an outgoing connection.
	minPort, maxPort = 20000, 32000
	blockSize        = 100
)

// A portPool gives ports to servers, each to one.
type portPool struct {
	mu    sync.Mutex
	free  []int
	guard []net.Listener // on the first ports of the blocks that are ours
}

var ports portPool

// take returns a port on which nobody listens.
func (p *portPool) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.free) == 0 {
			if err := p.growLocked(); err != nil {
				return 0, err
			}
		}
		port := p.free[0]
		p.free = p.free[1:]
		if ln, err := listenOn(port); err == nil { // Else some other program is there, and keeps it.
			return port, ln.Close()
		}
	}
}

func (p *portPool) growLocked() error {
	const blocks = (maxPort - minPort) / blockSize
	var all []error
	for _, b := range rand.Perm(blocks) {
		first := minPort + b*blockSize
		ln, err := listenOn(first)
		if err != nil {
			all = append(all, err)
			continue
		}
		p.guard = append(p.guard, ln)
		for i := 1; i < blockSize; i++ {
			p.free = append(p.free, first+i)
		}
		return nil
	}
	return errors.Join(all...)
}

// put has ports that take has returned be given to others.
func (p *portPool) put(port ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, port...)
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
