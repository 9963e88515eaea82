// Package recipe is what the recipes under examples/ share: in-memory nodes to
// lock on, a store that loses updates, and a voice. A program of yours needs none
// of it, as it has servers, a database and a log.
package recipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	// size is the number of nodes. Two of them may fail.
	size = 5

	// patience is how long a recipe may take before it has failed.
	patience = time.Minute
)

// A Stage is where a recipe is played.
type Stage struct {
	Nodes []*testcluster.Node

	cluster *testcluster.Cluster
	start   time.Time

	mu      sync.Mutex
	out     io.Writer
	clients []*redlock.Redlock
	others  []*Stage
}

// Main plays a recipe for the reader of stdout, and exits with status 1 if it
// fails.
func Main(tell func(ctx context.Context, s *Stage) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // A second Ctrl-C kills.
	if err := Run(ctx, os.Stdout, tell); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

// Run plays a recipe on nodes behind loopback ports.
func Run(ctx context.Context, out io.Writer, tell func(ctx context.Context, s *Stage) error) (err error) {
	cluster, err := testcluster.StartEmbedded(size) //nolint:contextcheck // In-memory servers start at once and take no context.
	if err != nil {
		return err
	}
	s := newStage(cluster, out, time.Now())
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return tell(ctx, s)
}

func newStage(cluster *testcluster.Cluster, out io.Writer, start time.Time) *Stage {
	return &Stage{Nodes: cluster.Nodes, cluster: cluster, out: out, start: start}
}

// Bubble returns a stage for a test in a synctest bubble, which ends with the
// test and says nothing.
func Bubble(tb testcluster.TB) *Stage {
	tb.Helper()
	s := newStage(testcluster.RunBubble(tb, size), io.Discard, time.Now())
	tb.Cleanup(func() {
		if err := s.close(context.Background()); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return s
}

// Another returns a stage with nodes of its own, which ends with s.
func (s *Stage) Another() (*Stage, error) {
	cluster, err := testcluster.StartEmbedded(size)
	if err != nil {
		return nil, err
	}
	other := newStage(cluster, s.out, s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = append(s.others, other)
	return other, nil
}

// Client returns a Redlock of its own, as every process has one. It is closed at
// the end.
func (s *Stage) Client(opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(s.Nodes))
	for i, n := range s.Nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: n.Pool()}
	}
	// The default of 250 ms suits a network that is near; a recipe is to work beside
	// a busy build, too.
	r, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(time.Second)}, opts...)...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, r)
	return r, nil
}

// Clients returns n of them.
func (s *Stage) Clients(n int, opts ...redlock.Option) ([]*redlock.Redlock, error) {
	clients := make([]*redlock.Redlock, n)
	for i := range clients {
		var err error
		if clients[i], err = s.Client(opts...); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// Say prints a sentence and when it was said, in seconds since the start.
func (s *Stage) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Where nobody can read it, the recipe still decides about the exit status.
	_, _ = fmt.Fprintf(s.out, "%6.3f  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// Holding returns how many nodes store the resource's key.
func (s *Stage) Holding(resource string) (int, error) {
	holding := 0
	for _, n := range s.Nodes {
		_, found, err := n.Get(resource)
		if err != nil {
			return 0, err
		}
		if found {
			holding++
		}
	}
	return holding, nil
}

// Kill makes the first n nodes die.
func (s *Stage) Kill(n int) error { return s.cluster.First(n).Stop() }

// Revive starts the first n nodes again, with the data that they had.
func (s *Stage) Revive(n int) error { return s.cluster.First(n).Restart(true) }

// close ends the clients, other stages, and the nodes.
func (s *Stage) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	s.mu.Lock()
	clients, others := s.clients, s.others
	s.mu.Unlock()
	var errs []error
	for _, r := range clients {
		errs = append(errs, r.Close(ctx))
	}
	for _, other := range others {
		errs = append(errs, other.close(ctx))
	}
	return errors.Join(append(errs, s.cluster.Close())...)
}

// Sleep waits for d, or until ctx ends and says why.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Together runs f(0) to f(n-1) at once and returns their errors, in this order.
func Together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}
