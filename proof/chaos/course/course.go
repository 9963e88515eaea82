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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/chaos/observer"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

// Options are what a run needs besides its plan.
type Options struct {
	Plan    *plan.Plan
	Command []string       // Starts a client.
	Header  history.Header // What is known of it before the run.
	Guests  [][]string     // Each starts a client of another library, which locks the same resources.
	// Ours says that Command is a client of redlock, which can release locks of others. One more takes locks that would
	// outlive the run, and releases them all.
	Ours    bool
	History io.Writer

	// Hang is how long anything of a client may take before it is given up, three minutes if it is 0.
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
	guests   []*client
	keeper   *client // Of locks that would outlive the run, nil if there is none.

	watched func() // Ends the watch over the nodes.

	ttl atomic.Int64 // Of clients that are started from now on.

	growing sync.Mutex // Guards step, which is the one of Plan.Sets that all clients have.
	step    int

	mu     sync.Mutex
	events []history.Event
	errs   []error
}

// A node is a server, and what is going on with it: one fault at a time.
type node struct {
	*testcluster.Node
	cluster *testcluster.Cluster
	ways    []way // By the number of the client.
	busy    sync.Mutex
	votes   time.Duration // When it does again after it may have forgotten locks. Guarded by busy.

	clock  string // The file of its clock, see preload/clock.c.
	offset time.Duration
}

// A client is a succession of processes: one fault at a time.
type client struct {
	number  int
	name    string   // Of its first process.
	command []string // Starts them.

	busy   sync.Mutex
	starts int
	maxTTL time.Duration
	set    []int // Its nodes; nil: all.

	now atomic.Pointer[process]
}

// Run carries out the plan and returns what happened. The error is about the run: a history that breaks promises is
// none.
func Run(ctx context.Context, opts Options) ([]history.Event, error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &run{Options: opts, ctx: ctx, dir: dir}
	r.ttl.Store(int64(opts.Plan.TTL))
	defer r.close()
	if err = r.startNodes(); err != nil { //nolint:contextcheck // Servers end with close.
		return nil, err
	}
	if err = r.observe(); err != nil { //nolint:contextcheck // The watch ends with the run.
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
	r.start = history.Monotonic()
	r.observer = observer.New(r.History, r.start, r.see)
	if r.addr, err = r.observer.Listen(); err != nil {
		return err
	}
	r.logHeader()
	if r.Plan.Course != plan.Soak {
		r.watch()
	}
	return nil
}

// watch has package trace tell what the nodes do, past the network. What a crowd does is its own affair.
func (r *run) watch() {
	w := trace.Watcher{Now: r.observer.Now, Step: func(e history.Event) {
		if len(e.Resources) == 0 || !strings.HasPrefix(e.Resources[0], "crowd/") {
			r.observer.Log(e)
		}
	}}
	for _, n := range r.nodes {
		w.Nodes = append(w.Nodes, n.DirectAddr())
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.Watch(ctx)
	}()
	r.watched = func() {
		stop()
		<-over
	}
}

func (r *run) logHeader() {
	p, h := r.Plan, r.Header
	h.Seed, h.Course, h.Nodes, h.Clients = p.Seed, p.Course, p.Nodes, p.Clients
	h.Started = time.Now().UTC().Format(time.RFC3339)
	h.MaxTTL, h.LastMaxTTL = int64(p.MaxTTL), int64(p.LastMaxTTL)
	for i, command := range r.Guests { // Before anything is told: see looks at them.
		g := r.newClient(r.crowdNumber()+1+i, fmt.Sprint("g", i+1), command)
		r.guests, h.Guests = append(r.guests, g), append(h.Guests, g.name)
		// Others poll, and leave keys behind: nobody can say when our next one in line gets a lock.
		h.Without = []string{"next in line"}
	}
	h.Bare = p.Bare
	if h.Fences {
		h.Fenced = p.Fenced
	}
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

// passOn has the next client release the lock. If that one is dead at the moment, or has another set, the lock expires.
func (r *run) passOn(e history.Event) {
	for i, c := range r.clients {
		if p := c.now.Load(); p != nil && p.name == e.Client {
			// Who has another set counts the nodes that had the lock by that, and may say that it was lost.
			if next := r.clients[(i+1)%len(r.clients)].now.Load(); next != nil && slices.Equal(next.set, p.set) {
				_ = next.Say(protocol.Command{Do: protocol.Release, Owner: e.Client, Lock: e.Lock, Resources: e.Resources, Token: e.Token})
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
		opts := []testcluster.ServerOption{testcluster.WithAppendOnly(), testcluster.WithArgs(muted...)}
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
		r.nodes = append(r.nodes, n)
		for range r.crowdNumber() + 1 + len(r.Guests) {
			if err = n.addWay(r.Plan, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// crowdNumber is the number of the crowd as a client. The keeper is 0, then come the clients; guests come after the crowd.
func (r *run) crowdNumber() int { return r.Plan.Clients + 1 }

// close ends all processes and removes their files.
func (r *run) close() {
	if r.watched != nil {
		r.watched()
	}
	for _, c := range r.everybody() {
		if p := c.now.Load(); p != nil {
			p.Kill()
		}
	}
	for _, n := range r.nodes {
		for _, w := range n.ways {
			w.Close()
		}
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
