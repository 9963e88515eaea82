package course

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/test/child"
)

// hang is how long anything of a client may take before the run is given up, also on a machine that is busy.
const hang = 3 * time.Minute

// guestHang is how long a client of another library may take to stop.
const guestHang = 10 * time.Second

// startClients starts all clients. The first one admits the new cluster.
func (r *run) startClients() error {
	for i := range r.Plan.Clients {
		r.clients = append(r.clients, r.newClient(i+1, fmt.Sprint("c", i+1), r.Command))
	}
	for _, c := range slices.Concat(r.clients, r.guests) {
		if err := r.launch(c); err != nil {
			return err
		}
		if c.number == 1 {
			for _, i := range c.nodes(r) {
				r.admit(i)
			}
		}
	}
	if !r.Ours || r.Plan.Sets != nil { // It would keep its set.
		return nil
	}
	// It has to tidy up whatever it leaves, so no fault strikes it: only its nodes and its network are faulty.
	r.keeper = r.newClient(0, "c0", r.Command)
	return r.launch(r.keeper)
}

func (r *run) newClient(number int, name string, command []string) *client {
	c := &client{number: number, name: name, command: command, maxTTL: r.Plan.MaxTTL}
	if r.Plan.Sets != nil {
		c.set = r.Plan.Sets[0]
	}
	return c
}

// everybody is all clients.
func (r *run) everybody() []*client {
	all := slices.Concat(r.clients, r.guests)
	if r.keeper != nil {
		all = append(all, r.keeper)
	}
	return all
}

// launch starts the client's next process.
func (r *run) launch(c *client) error {
	c.starts++
	name := c.name
	if c.starts > 1 {
		name += fmt.Sprint(".", c.starts)
	}
	cfg := protocol.Config{
		Client: name, Observer: r.addr, Start: r.start, Seed: r.Plan.Seed<<16 + uint64(c.number)<<8 + uint64(c.starts),
		Resources: r.Plan.Resources, Fenced: r.Plan.Fenced, Workers: r.Plan.Workers,
		TTL: r.ttl.Load(), NodeTimeout: int64(r.Plan.NodeTimeout), MaxTTL: int64(c.maxTTL),
		Bare: r.Plan.Bare, Expiring: r.Plan.Expiring, Led: r.Plan.Led, Hot: r.Plan.Hot,
		Quiet: r.Plan.Course == plan.Soak, Conn: r.Plan.Conns[c.number],
	}
	if c == r.keeper {
		cfg.Workers, cfg.Long, cfg.Expiring = 0, true, nil
	}
	cfg.Nodes, cfg.Set = r.waysOf(c), c.set
	p, err := start(c.command, cfg)
	if err != nil {
		return err
	}
	r.observer.Log(history.Event{Kind: history.Up, Client: name, Set: c.set, Polls: r.Plan.Conns[c.number] != ""})
	if !p.hears(protocol.Ready, r.givenUp()) {
		p.Kill()
		return fmt.Errorf("course: client %s is not ready", name)
	}
	c.now.Store(p)
	return nil
}

// givenUp is closed when a client has taken too long, and when the run is cut short.
func (r *run) givenUp() <-chan struct{} { return r.past(cmp.Or(r.Hang, hang)) }

// past is closed when the time is over, and when the run is cut short.
func (r *run) past(d time.Duration) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		r.rest(d)
		close(end)
	}()
	return end
}

// admit has the first client end a node's quarantine, and waits: once something else has happened to the node it
// would be wrong.
func (r *run) admit(number int) {
	c := r.clients[0]
	c.busy.Lock()
	defer c.busy.Unlock()
	r.admitBy(c, number)
}

// admitBy does so while the client is busy.
func (r *run) admitBy(c *client, number int) {
	node := slices.Index(c.nodes(r), number)
	if p := c.now.Load(); p != nil && r.Plan.MaxTTL > 0 {
		if p.Say(protocol.Command{Do: protocol.Admit, Node: node}) == nil {
			p.hears(protocol.Admitted(node), r.givenUp())
		}
	}
}

// crash kills the client; another process takes its place.
func (r *run) crash(f plan.Fault) {
	c := r.clients[f.Client-1]
	p := c.now.Load()
	r.begin(f, p.name)
	c.now.Store(nil)
	p.Kill()
	r.observer.Log(history.Event{Kind: history.Down, Client: p.name, Err: "killed"})
	r.rest(f.For)
	r.end(f, p.name)
	r.fail(r.launch(c))
}

func (r *run) pause(f plan.Fault) {
	p := r.clients[f.Client-1].now.Load()
	r.begin(f, p.name)
	_ = p.Cmd.Process.Signal(syscall.SIGSTOP)
	r.rest(f.For)
	_ = p.Cmd.Process.Signal(syscall.SIGCONT)
	r.end(f, p.name)
}

// raise restarts all clients with a larger maxTTL, one by one. Those that are started later may use a larger ttl.
func (r *run) raise(f plan.Fault) {
	r.renew(f, func(c *client) { c.maxTTL = f.Amount }, func(*client) {})
	r.ttl.Store(int64(r.Plan.TTL + f.Amount - r.Plan.MaxTTL))
}

// grow restarts all clients with the next set, one by one. A node that comes is new, and is admitted before locks are asked
// of it. The step is over when the longest ttl has passed and no node is in quarantine. A node that has left is emptied: if
// it comes back, it comes as another one.
func (r *run) grow(f plan.Fault) {
	if !r.growing.TryLock() {
		return // On a busy machine: the step before is not over.
	}
	defer r.growing.Unlock()
	sets := r.Plan.Sets
	before, set := sets[r.step%len(sets)], sets[(r.step+1)%len(sets)]
	r.step++
	r.renew(f, func(c *client) { c.set = set }, func(c *client) {
		for _, i := range set {
			if c == r.clients[0] && !slices.Contains(before, i) {
				r.admitBy(c, i)
			}
		}
	})
	r.rest(r.Plan.MaxTTL)
	for i, n := range r.nodes {
		n.busy.Lock()
		switch {
		case slices.Contains(set, i):
			r.until(n.votes)
			r.admit(i)
		case slices.Contains(before, i):
			r.fail(n.Restart(false))
		}
		n.busy.Unlock()
	}
}

// renew changes all clients, one by one, by restarting them.
func (r *run) renew(f plan.Fault, change, started func(c *client)) {
	for _, c := range r.clients {
		c.busy.Lock()
		g := f
		g.Client = c.number
		p := c.now.Load()
		r.begin(g, p.name)
		c.now.Store(nil)
		r.stop(p)
		r.quit(p)
		change(c)
		r.fail(r.launch(c))
		started(c)
		r.end(g, p.name)
		c.busy.Unlock()
	}
}

// stop has the client finish its work.
func (r *run) stop(p *process) {
	if !p.stops(r.givenUp()) {
		r.fail(fmt.Errorf("course: client %s: %w", p.name, ErrStuck))
	}
}

// dismiss does the same with one of another library. Calls of node-redlock have no limit: where one hangs, it is killed.
func (r *run) dismiss(g *client) {
	if p := g.now.Load(); !p.stops(r.past(guestHang)) {
		g.now.Store(nil)
		p.Kill()
		r.observer.Log(history.Event{Kind: history.Down, Client: p.name, Err: "killed"})
	}
}

// quit ends a client that has stopped.
func (r *run) quit(p *process) {
	if !p.ends(r.givenUp()) {
		r.fail(fmt.Errorf("course: client %s does not exit", p.name))
	}
	down := history.Event{Kind: history.Down, Client: p.name}
	if err := p.Wait(); err != nil {
		down.Err = err.Error()
		r.fail(fmt.Errorf("course: client %s: %w", p.name, err))
	}
	r.observer.Log(down)
}

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
