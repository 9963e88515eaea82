package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/election"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	ttl  = testkit.TTL
	name = "reports"

	// soon is a time in which something passes from one process to another, and far less than a timed retry takes.
	soon = 20 * time.Millisecond

	// look is how often an observer asks, with this ttl.
	look = time.Second
)

func newElection(t *testing.T, r *redlock.Redlock, opts ...redlock.Option) *election.Election {
	t.Helper()
	e, err := election.New(r, name, ttl, opts...)
	require.NoError(t, err)
	return e
}

// process is a candidate in a process of its own.
func process(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *election.Election {
	t.Helper()
	return newElection(t, testkit.NewRedlock(t, c), opts...)
}

// elect stands for leader, which nobody is.
func elect(t *testing.T, e *election.Election) *election.Term {
	t.Helper()
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, term.Err())
	return term
}

func resign(t *testing.T, term *election.Term) {
	t.Helper()
	require.NoError(t, term.Resign(t.Context()))
}

// lockOf is the lock under a term.
func lockOf(t *testing.T, term *election.Term) *redlock.Lock {
	t.Helper()
	l, ok := redlock.FromContext(term.Context())
	require.True(t, ok)
	return l
}

// A call is one of Campaign, on a goroutine of its own.
type call struct {
	done chan struct{}
	term *election.Term
	err  error
	at   time.Time // when it returned
}

func start(ctx context.Context, e *election.Election) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		c.term, c.err = e.Campaign(ctx)
		c.at = time.Now()
		close(c.done)
	}()
	return c
}

func (c *call) waits() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// won waits for the term.
func (c *call) won(t *testing.T) *election.Term {
	t.Helper()
	<-c.done
	require.NoError(t, c.err)
	return c.term
}

// requireNothingLeft checks that no node has a lock, once all that is on its way has arrived.
func requireNothingLeft(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	synctest.Wait()
	testkit.RequireNoKeys(t, c)
}
