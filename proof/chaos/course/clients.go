package course

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// hang is how long anything of a client may take before the run is given up.
const hang = 60 * time.Second

func (c *client) process() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *client) set(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = p
}

// startClients starts all clients. The first one admits the new cluster.
func (r *run) startClients() error {
	for i := range r.Plan.Clients {
		r.clients = append(r.clients, &client{number: i + 1, maxTTL: r.Plan.MaxTTL})
	}
	for _, c := range r.clients {
		if err := r.launch(c); err != nil {
			return err
		}
		if c.number == 1 {
			for i := range r.nodes {
				r.admit(i)
			}
		}
	}
	if !r.Long {
		return nil
	}
	// It has to tidy up whatever it leaves, so no fault strikes it: only its nodes and its network are faulty.
	r.keeper = &client{maxTTL: r.Plan.MaxTTL}
	return r.launch(r.keeper)
}

// everybody is all clients.
func (r *run) everybody() []*client {
	if r.keeper == nil {
		return r.clients
	}
	return append(slices.Clone(r.clients), r.keeper)
}

// launch starts the client's next process.
func (r *run) launch(c *client) error {
	c.starts++
	name := fmt.Sprint("c", c.number)
	if c.starts > 1 {
		name += fmt.Sprint(".", c.starts)
	}
	cfg := protocol.Config{
		Client: name, Observer: r.addr, Start: r.start, Seed: r.Plan.Seed<<16 + uint64(c.number)<<8 + uint64(c.starts),
		Resources: r.Plan.Resources, Workers: r.Plan.Workers,
		TTL: int64(r.ttlNow()), NodeTimeout: int64(r.Plan.NodeTimeout), MaxTTL: int64(c.maxTTL),
		HandOn: r.HandOn, Broken: r.Plan.Broken.Client,
	}
	if c == r.keeper {
		cfg.Workers, cfg.Long = 0, true
	}
	for _, n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, n.Addr())
	}
	command := r.Command
	if r.namespace != nil && c.number == len(r.clients) {
		cfg.Nodes, cfg.Observer = r.namespace.nodes, r.namespace.observer
		command = r.namespace.enter(command...)
	}
	p, err := start(command, cfg)
	if err != nil {
		return err
	}
	r.observer.Log(history.Event{Kind: history.Up, Client: name})
	if !p.hears(protocol.Ready, r.givenUp()) {
		p.kill()
		return fmt.Errorf("course: client %s is not ready: %w", name, p.err)
	}
	c.set(p)
	return nil
}

// givenUp is closed when a client has taken too long, and when the run is cut short.
func (r *run) givenUp() <-chan struct{} {
	end := make(chan struct{})
	go func() {
		r.rest(cmp.Or(r.Hang, hang))
		close(end)
	}()
	return end
}

// admit has the first client end a node's quarantine, and waits: once something else has happened to the node it
// would be wrong.
func (r *run) admit(node int) {
	c := r.clients[0]
	c.busy.Lock()
	defer c.busy.Unlock()
	if p := c.process(); p != nil && r.Plan.MaxTTL > 0 {
		if p.tell(protocol.Command{Do: protocol.Admit, Node: node}) == nil {
			p.hears(protocol.Admitted(node), r.givenUp())
		}
	}
}

// crash kills the client; another process takes its place.
func (r *run) crash(f plan.Fault) {
	c := r.clients[f.Client-1]
	p := c.process()
	r.begin(f, p.name)
	c.set(nil)
	p.kill()
	r.observer.Log(history.Event{Kind: history.Down, Client: p.name, Err: "killed"})
	r.rest(f.For)
	r.end(f, p.name)
	r.fail(r.launch(c))
}

// pause freezes the client.
func (r *run) pause(f plan.Fault) {
	p := r.clients[f.Client-1].process()
	r.begin(f, p.name)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	r.rest(f.For)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	r.end(f, p.name)
}

// raise restarts all clients with a larger maxTTL, one by one. Those that are started later may use a larger ttl.
func (r *run) raise(f plan.Fault) {
	for _, c := range r.clients {
		c.busy.Lock()
		g := f
		g.Client = c.number
		p := c.process()
		r.begin(g, p.name)
		c.set(nil)
		r.stop(p)
		r.quit(p)
		c.maxTTL = f.Amount
		r.fail(r.launch(c))
		r.end(g, p.name)
		c.busy.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ttl = r.Plan.TTL + f.Amount - r.Plan.MaxTTL
}

func (r *run) ttlNow() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ttl
}

// stop has the client finish its work.
func (r *run) stop(p *process) {
	if p.tell(protocol.Command{Do: protocol.Stop}) != nil || !p.hears(protocol.Done, r.givenUp()) {
		r.fail(fmt.Errorf("course: client %s: %w", p.name, ErrStuck))
	}
}

// quit ends a client that has stopped.
func (r *run) quit(p *process) {
	_ = p.stdin.Close()
	select {
	case <-p.gone:
	case <-r.givenUp():
		r.fail(fmt.Errorf("course: client %s does not exit", p.name))
		p.kill()
	}
	down := history.Event{Kind: history.Down, Client: p.name}
	if p.err != nil {
		down.Err = p.err.Error()
		r.fail(fmt.Errorf("course: client %s: %w", p.name, p.err))
	}
	r.observer.Log(down)
}
