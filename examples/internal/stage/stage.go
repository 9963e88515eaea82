// Package stage is what the programs under examples/ share: in-memory nodes to lock on, a
// client for each process, a store that loses updates, and a voice. A program of yours
// needs none of it, as it has servers, a database and a log.
package stage

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

	// patience is how long a story may take before it has failed.
	patience = time.Minute
)

// A Stage is where a story is played.
type Stage struct {
	Nodes []*testcluster.Node

	cluster *testcluster.Cluster
	start   time.Time

	mu        sync.Mutex
	out       io.Writer
	processes []*Process
	others    []*Stage
}

// Open returns a stage, which speaks to out. Its nodes need no ports, so it may be in a bubble of
// fake time.
func Open(out io.Writer) (*Stage, error) {
	cluster, err := testcluster.NewBubble(size)
	if err != nil {
		return nil, err
	}
	return &Stage{Nodes: cluster.Nodes, cluster: cluster, out: out, start: time.Now()}, nil
}

// Interruptible returns a context that ends with the first Ctrl-C. A second one kills.
func Interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Main plays a story for the reader of stdout, and exits with status 1 if it fails.
func Main(tell func(ctx context.Context, s *Stage)) {
	if err := Run(Interruptible(), os.Stdout, tell); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

// Run plays a story.
func Run(ctx context.Context, out io.Writer, tell func(ctx context.Context, s *Stage)) error {
	s, err := Open(out) //nolint:contextcheck // In-memory servers start at once and take no context.
	if err != nil {
		return err
	}
	return Try(func() {
		defer func() { Must(s.Close(ctx)) }()
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		tell(limited, s)
	})
}

// A failure is what ends a story.
type failure struct{ error }

// Try returns the error that has ended play, if one has.
func Try(play func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	play()
	return nil
}

// Must ends the story if there is an error. So stories have no ifs for what goes wrong only
// if the machine does; the code to copy has. It is for the goroutine that tells the story.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Got is v, unless there is an error, which ends the story.
func Got[V any](v V, err error) V {
	Must(err)
	return v
}

// Check ends the story if it is not so.
func Check(so bool, format string, args ...any) {
	if !so {
		Must(fmt.Errorf(format, args...))
	}
}

// Another returns a stage with nodes of its own, which ends with s.
func (s *Stage) Another() *Stage {
	other := Got(Open(s.out))
	other.start = s.start
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = append(s.others, other)
	return other
}

// Client returns a Redlock of its own, as every process has one. It is closed at the end.
func (s *Stage) Client(opts ...redlock.Option) *redlock.Redlock { return s.Process(opts...).Redlock }

// Clients returns n of them.
func (s *Stage) Clients(n int, opts ...redlock.Option) []*redlock.Redlock {
	clients := make([]*redlock.Redlock, n)
	for i := range clients {
		clients[i] = s.Client(opts...)
	}
	return clients
}

// Say prints a sentence and when it was said, in seconds since the start.
func (s *Stage) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Where nobody can read it, the story still decides about the exit status.
	_, _ = fmt.Fprintf(s.out, "%6.3f  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// Holding returns how many nodes store the resource's key.
func (s *Stage) Holding(resource string) (holding int) {
	for _, n := range s.Nodes {
		_, found, err := n.Get(resource)
		Must(err)
		if found {
			holding++
		}
	}
	return holding
}

// Kill makes the first n nodes die.
func (s *Stage) Kill(n int) { Must(s.cluster.First(n).Stop()) }

// Revive starts the first n nodes again, with the data that they had.
func (s *Stage) Revive(n int) { Must(s.cluster.First(n).Restart(true)) }

// Rob gives the lock on the first n nodes to somebody else.
func (s *Stage) Rob(n int, resource string) {
	Must(s.cluster.First(n).Set(resource, "somebody else", time.Hour))
}

// Close ends the processes, other stages, and the nodes.
func (s *Stage) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	s.mu.Lock()
	processes, others := s.processes, s.others
	s.mu.Unlock()
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.close(ctx))
	}
	for _, other := range others {
		errs = append(errs, other.Close(ctx))
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
