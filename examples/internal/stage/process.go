package stage

import (
	"context"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A Process has a Redlock and connections of its own.
type Process struct {
	*redlock.Redlock

	ways []*testcluster.Proxy // one to each node
}

// Process returns one, which ends with the stage.
func (s *Stage) Process(opts ...redlock.Option) *Process {
	p := &Process{}
	var nodes []redlock.Node
	for _, n := range s.Nodes {
		way := testcluster.NewProxy(n.Dial)
		p.ways = append(p.ways, way)
		dial := redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return way.Dial(ctx) })
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: &redis.Pool{
			DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", n.Name(), dial) },
		}})
	}
	// The default of 250 ms suits a network that is near; a story is to go well beside a
	// busy build, too.
	p.Redlock = Got(redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(time.Second)}, opts...)...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// Suspend has the process stand still, as by SIGSTOP, as far as its connections are concerned: they
// carry nothing, in both directions. Its goroutines cannot be stopped, as they are this program's.
func (p *Process) Suspend() {
	for _, w := range p.ways {
		w.Hang()
	}
}

// Resume has it go on.
func (p *Process) Resume() {
	for _, w := range p.ways {
		w.Resume()
	}
}

func (p *Process) close(ctx context.Context) error {
	err := p.Close(ctx)
	for _, w := range p.ways {
		w.Close()
	}
	return err
}
