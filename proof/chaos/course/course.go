// Package course runs a plan: it starts servers and clients, makes the faults happen, and writes the history.
// The clients may be of any library: they are processes that speak as package protocol says.
package course

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/chaos/monotime"
	"github.com/seed6c881748/redlock/proof/chaos/observer"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// Options are what a run needs besides its plan.
type Options struct {
	Plan    *plan.Plan
	Command []string       // Starts a client.
	Crowd   []string       // Starts the callers of an overload.
	Header  history.Header // What is known of it before the run.
	HandOn  bool           // Clients can release locks of others.
	Long    bool           // One more client takes locks that would outlive the run, and releases them all.
	History io.Writer

	// Started is called with the start of the run and the servers' own addresses, before there are clients. May be nil.
	Started func(start int64, servers []string)
	// Hang is how long anything of a client may take before it is given up, a minute if it is 0.
	Hang time.Duration
}

// ErrStuck matches the error of a run in which a client did not finish its work within Options.Hang.
var ErrStuck = errors.New("it does not stop")

// A run is one that is going on.
type run struct {
	Options
	ctx      context.Context //nolint:containedctx // It is the run's own.
	dir      string
	start    int64
	observer *observer.Observer
	addr     string // The observer's.
	nodes    []*node
	clients  []*client
	keeper   *client // Of locks that would outlive the run, nil if there is none.

	namespace *namespace // Of the last client, nil if it has none.

	mu     sync.Mutex
	events []history.Event
	errs   []error
	ttl    time.Duration // Of clients that are started from now on.
}

// A node is a server, and what is going on with it: one fault at a time.
type node struct {
	*testcluster.Node
	cluster *testcluster.Cluster
	busy    sync.Mutex

	clock  string // The file with the offset of its clock.
	offset time.Duration
}

// A client is a succession of processes: one fault at a time.
type client struct {
	number int

	busy   sync.Mutex
	starts int
	maxTTL time.Duration

	mu  sync.Mutex // Of now.
	now *process
}

// Run carries out the plan and returns what happened. The error is about the run: a history that breaks promises is
// none.
func Run(ctx context.Context, opts Options) ([]history.Event, error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &run{Options: opts, ctx: ctx, dir: dir, ttl: opts.Plan.TTL}
	defer r.close()
	if err = r.startNodes(); err != nil { //nolint:contextcheck // Servers end with close.
		return nil, err
	}
	if err = r.observe(); err != nil {
		return nil, err
	}
	if err = r.startClients(); err != nil {
		return nil, err
	}
	r.strikeAll()
	r.finish()
	err = r.observer.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, errors.Join(append(r.errs, err, context.Cause(ctx))...)
}

// observe begins the history. Servers run by then: how long they take to start is no part of the schedule.
func (r *run) observe() (err error) {
	r.start = monotime.Now()
	r.observer = observer.New(r.History, r.start, r.see)
	r.observer.Forgets = r.Plan.Broken.Register
	if r.addr, err = r.observer.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	r.logHeader()
	if r.Started != nil {
		var servers []string
		for _, n := range r.nodes {
			servers = append(servers, n.DirectAddr())
		}
		r.Started(r.start, servers)
	}
	return r.layCable()
}

func (r *run) logHeader() {
	p, h := r.Plan, r.Header
	h.Seed, h.Course, h.Nodes, h.Clients = p.Seed, p.Course, p.Nodes, p.Clients
	h.Started = time.Now().UTC().Format(time.RFC3339)
	h.LeftAfter = int64(p.LeftAfter)
	h.Settings = map[string]string{
		"duration": p.Duration.String(), "ttl": p.TTL.String(), "node timeout": p.NodeTimeout.String(),
		"signal slack": time.Duration(h.SignalSlack).String(), "quarantine": "off", "workers of a client": fmt.Sprint(p.Workers),
	}
	if p.MaxTTL > 0 {
		h.Settings["quarantine"] = "maxTTL " + p.MaxTTL.String()
	}
	r.observer.Log(history.Event{Kind: history.Run, Run: &h})
}

// see is called with each event, one at a time. It must not call the observer.
func (r *run) see(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	if e.Kind == history.Leave && e.Detail == "hand on" {
		go r.passOn(e)
	}
}

// passOn has the next client release the lock. If that one is dead at the moment, the lock expires.
func (r *run) passOn(e history.Event) {
	for i, c := range r.clients {
		if p := c.process(); p != nil && p.name == e.Client {
			if next := r.clients[(i+1)%len(r.clients)].process(); next != nil {
				_ = next.tell(protocol.Command{Do: protocol.Release, Owner: e.Client, Lock: e.Lock, Resources: e.Resources, Token: e.Token})
			}
			return
		}
	}
}

// fail notes what went wrong with the run itself.
func (r *run) fail(err error) {
	if err != nil && r.ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}
}

func (r *run) startNodes() error {
	clock, err := r.buildClock()
	if err != nil {
		return err
	}
	for i := range r.Plan.Nodes {
		n := &node{clock: filepath.Join(r.dir, fmt.Sprint("clock", i))}
		opts := []testcluster.ServerOption{testcluster.WithProxy(), testcluster.WithAppendOnly()}
		if clock != "" {
			if err = makeClock(n.clock); err != nil {
				return err
			}
			opts = append(opts, testcluster.WithEnv("LD_PRELOAD="+clock, "CHAOS_CLOCK="+n.clock))
		}
		if n.cluster, err = testcluster.StartServers(1, opts...); err != nil {
			return err
		}
		n.Node = n.cluster.Nodes[0]
		n.cluster.SetSeed(r.Plan.Seed + uint64(i))
		n.calm()
		n.Proxy().LateBytes(10*time.Millisecond, plan.Late)
		r.nodes = append(r.nodes, n)
	}
	return nil
}

// calm is the network when nothing is wrong.
func (n *node) calm() { n.Proxy().SetDelay(0, 2*time.Millisecond) }

// close ends all processes and removes their files.
func (r *run) close() {
	for _, c := range r.everybody() {
		if p := c.process(); p != nil {
			p.kill()
		}
	}
	if r.namespace != nil {
		r.namespace.close()
	}
	for _, n := range r.nodes {
		_ = n.cluster.Close()
	}
	if r.observer != nil {
		_ = r.observer.Close()
	}
}

// rest waits, and reports whether the run goes on.
func (r *run) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// until waits until a time of the run.
func (r *run) until(at time.Duration) bool { return r.rest(at - time.Duration(r.observer.Now())) }
