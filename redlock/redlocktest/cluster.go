package redlocktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// patience is how long a Cluster waits for things that take moments: in a bubble, in fake time.
const patience = 5 * time.Second

// nodeTimeout is the node timeout of a Cluster's Redlocks, unless an option sets another one.
// The nodes are goroutines of the test. With the 250 ms of package redlock a test would fail now
// and then on a machine that is so busy that it does not run them for that long.
const nodeTimeout = 2 * time.Second

// probe is a resource that nobody locks.
const probe = "redlocktest-probe"

// A Cluster is a set of in-memory nodes with a Redlock over them. It belongs to
// the test that made it, and ends with it.
//
// Its methods are safe for concurrent use, from any goroutine of the test: what
// goes wrong in them is reported with Errorf, so that the test fails but goes on
// (but for NewRedlock, which ends it).
type Cluster struct {
	// Redlock is what the code under test gets. It has the options given to New.
	Redlock *redlock.Redlock

	tb     testing.TB
	ctx    context.Context //nolint:containedctx // The test's, for calls of its own; it is never done.
	nodes  []*testcluster.Node
	opts   []redlock.Option
	prefix string
	made   bubbles

	mu       sync.Mutex
	redlocks []*redlock.Redlock // all Redlocks that were made here
	taken    int                // how often Take was called
	stopped  []bool             // by node: StopMajority
	slow     bool               // Slow was used since the last Recover
}

// New returns a Cluster of n nodes, each an empty server in memory, and a Redlock over them
// with the options opts. It uses no sockets and no files. If n is less than 1, or redlock.New
// does not accept opts, it fails the test at once.
//
// The node timeout is 2 s, unless opts say otherwise, instead of the 250 ms of package redlock:
// a test should pass even if a busy machine stands still for a moment.
//
// When the test and its subtests are over, faults are ended, then the Redlock is
// closed, then the nodes. A Do that is then still running, or a lock of KeepAlive
// that was not unlocked, has 5 s to end after its context has, with the cause
// redlock.ErrClosed; otherwise the test fails.
//
// In a bubble of testing/synctest, call it inside the bubble, with the T of the
// bubble. One that was made outside panics at the first call inside, and says so;
// with a WithTracer among opts it is the runtime that ends the program.
func New(tb testing.TB, n int, opts ...redlock.Option) *Cluster {
	tb.Helper()
	if n < 1 {
		tb.Fatalf("redlocktest: New with %d nodes: it takes 1 or more", n)
		return nil
	}
	made := bubbles{time.Now().Round(0)}
	c := &Cluster{
		tb:      tb,
		ctx:     context.WithoutCancel(tb.Context()),
		nodes:   testcluster.RunBubble(tb, n).Nodes, // The name means that it also works in bubbles.
		opts:    append([]redlock.Option{redlock.WithNodeTimeout(nodeTimeout), redlock.WithTracer(made), redlock.WithoutLog()}, opts...),
		made:    made,
		stopped: make([]bool, n),
	}
	tb.Cleanup(c.end)
	if c.Redlock = c.NewRedlock(); c.Redlock == nil {
		return nil
	}
	c.prefix = settings.Of(c.Redlock).Prefix
	return c
}

// NewRedlock returns a further Redlock over the same nodes, like that of another process: it
// shares nothing with the others. Its options are those given to New, overridden by opts; but
// the Cluster goes on to use the prefix given to New. It ends as c.Redlock does, unless it was
// closed before.
func (c *Cluster) NewRedlock(opts ...redlock.Option) *redlock.Redlock {
	c.tb.Helper()
	c.made.check()
	r, err := redlock.New(c.Nodes(), slices.Concat(c.opts, opts)...)
	if err != nil {
		c.tb.Fatalf("redlocktest: NewRedlock: %v", err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redlocks = append(c.redlocks, r)
	return r
}

// Nodes returns the nodes for a call of redlock.New, where the code under test
// makes its own Redlock. The test has to close that one before it ends. The
// nodes are named node1, node2 and so on.
func (c *Cluster) Nodes() []redlock.Node {
	nodes := make([]redlock.Node, len(c.nodes))
	for i, n := range c.nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: n.Pool()}
	}
	return nodes
}

// need returns the quorum.
func (c *Cluster) need() int { return len(c.nodes)/2 + 1 }

// each calls fn for every Redlock that was made here, for all at once.
func (c *Cluster) each(fn func(r *redlock.Redlock)) {
	c.mu.Lock()
	redlocks := slices.Clone(c.redlocks)
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range redlocks {
		wg.Go(func() { fn(r) })
	}
	wg.Wait()
}

// settle waits until the nodes that answer have carried out all earlier requests: a call returns as soon as a quorum
// has answered, and its requests to the other nodes are still under way. Requests to one node stay in order.
func (c *Cluster) settle() {
	c.each(func(r *redlock.Redlock) { _, _ = r.Inspect(c.ctx, probe) })
}

// end closes the Redlocks. The nodes end after it.
func (c *Cluster) end() {
	c.lift() // Otherwise Close could not tell the nodes what to release.
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	c.each(func(r *redlock.Redlock) {
		if err := r.Close(ctx); err != nil {
			c.tb.Errorf("redlocktest: a Do was still running %v after the test, or a lock of KeepAlive not unlocked: %+v", patience, held(r))
		}
	})
}

// held returns the part of the statistics that a failed Close is about.
func held(r *redlock.Redlock) (s struct{ Held, Kept, Waiting int }) {
	all := r.Stats()
	s.Held, s.Kept, s.Waiting = all.Held, all.Kept, all.Waiting
	return s
}

// failed reports an error of a node. Embedded nodes have none as long as the
// test runs.
func (c *Cluster) failed(what string, err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Errorf("redlocktest: %s: %v", what, err)
	}
}
