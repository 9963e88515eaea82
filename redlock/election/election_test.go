package election_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

func TestNewRefuses(t *testing.T) {
	r := testkit.NewOver(t, testkit.ForbiddenNodes(t, 3))
	for _, c := range []struct {
		r    *redlock.Redlock
		name string
		ttl  time.Duration
		says string
	}{
		{nil, name, ttl, `election "reports": redlock: nil *Redlock`},
		{r, "", ttl, `election "": redlock: `},
		{r, name, time.Second, `stop time`},
	} {
		_, err := election.New(c.r, c.name, c.ttl, redlock.WithStopTime(time.Second))
		require.ErrorContains(t, err, c.says)
	}
}

// The next one leads at once, with a larger fence, and who has resigned does not.
func TestResignHandsOver(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		es := []*election.Election{process(t, c), process(t, c), process(t, c)}
		term, fence := elect(t, es[0]), int64(0)
		for i := range 9 {
			leader, next := es[i%3], es[(i+1)%3]
			require.Greater(t, term.Fence(), fence)
			fence = term.Fence()
			require.True(t, leader.IsLeader())
			waiting := testkit.Start(t.Context(), next.Campaign)
			require.True(t, waiting.Waits())
			require.False(t, next.IsLeader())
			time.Sleep(3 * ttl) // It is extended.
			require.True(t, waiting.Waits())

			began := time.Now()
			require.NoError(t, term.Err())
			resign(t, term)
			require.False(t, leader.IsLeader())
			require.ErrorIs(t, term.Err(), context.Canceled)
			require.ErrorIs(t, term.Context().Err(), context.Canceled)
			term = waiting.Got(t)
			require.Less(t, waiting.At.Sub(began), soon)
		}
		resign(t, term)
		require.NoError(t, term.Resign(t.Context()), "as of a lock")
		testkit.RequireNothingLeft(t, c)
	})
}

// A minority of nodes that is down or hangs disturbs neither a leader nor the next one. Without a quorum the
// term ends in time, and the next one begins after it.
func TestNodesDown(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c, redlock.WithStopTime(2*time.Second)), process(t, c)
		term := elect(t, a)
		waiting := testkit.Start(t.Context(), b.Campaign)
		time.Sleep(ttl) // The lock is on all nodes, also where b came first.
		require.NoError(t, c.Nodes[0].Hang())
		require.NoError(t, c.Nodes[1].Stop())
		time.Sleep(10 * ttl)
		require.True(t, waiting.Waits())
		require.NoError(t, term.Err())
		began := time.Now()
		resign(t, term)
		term = waiting.Got(t)
		assert.Less(t, waiting.At.Sub(began), soon)
		waiting = testkit.Start(t.Context(), a.Campaign)
		require.True(t, waiting.Waits())
		resign(t, term)
		term = waiting.Got(t)

		waiting = testkit.Start(t.Context(), b.Campaign)
		require.True(t, waiting.Waits())
		require.NoError(t, c.Nodes[2].Hang())
		<-term.Context().Done()
		lock := lockOf(t, term)
		require.Equal(t, 2*time.Second, time.Until(lock.Until()))
		require.ErrorIs(t, term.Err(), redlock.ErrStopTime)
		require.False(t, a.IsLeader(), "though the lock is held, for the work to stop")
		require.NoError(t, lock.Err())
		time.Sleep(ttl)
		require.ErrorIs(t, term.Resign(t.Context()), redlock.ErrExpired)
		require.True(t, waiting.Waits(), "while there is no quorum")
		require.NoError(t, c.Nodes[0].Resume())
		next := waiting.Got(t)
		assert.Greater(t, next.Fence(), term.Fence())
		resign(t, next)
	})
}

// A process that was suspended knows before anything has told it.
func TestSuspendedLeaderLeadsNoMore(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		e := newElection(t, r)
		term := elect(t, e)
		testkit.WallOffset(r).Store(int64(ttl))
		require.False(t, e.IsLeader())
		require.ErrorIs(t, term.Err(), redlock.ErrExpired)
		require.NoError(t, term.Context().Err())
		began := time.Now()
		<-term.Context().Done()
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		require.ErrorIs(t, context.Cause(term.Context()), redlock.ErrExpired)
		require.ErrorIs(t, term.Resign(t.Context()), redlock.ErrExpired)
		testkit.RequireNothingLeft(t, c)
	})
}

// Keys that somebody has deleted end the term at the next extension.
func TestRobbedLeaderLeadsNoMore(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		e := process(t, c)
		term := elect(t, e)
		time.Sleep(time.Second)
		require.NoError(t, c.Del(name))
		other := elect(t, process(t, c))
		assert.NotContains(t, fmt.Sprintf("%v %#v %+v", e, term, *term), lockOf(t, term).Token()[:16])
		<-term.Context().Done()
		require.ErrorIs(t, term.Err(), redlock.ErrLost)
		require.False(t, e.IsLeader())
		require.Greater(t, other.Fence(), term.Fence())
		require.ErrorIs(t, term.Resign(t.Context()), redlock.ErrLost)
		require.NoError(t, other.Err())
		resign(t, other)
		resign(t, elect(t, e))
	})
}

func TestCampaignRefuses(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		e := process(t, c, redlock.WithWait(time.Second))
		term := elect(t, e)
		_, err := e.Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorContains(t, err, `election "reports": `)

		other := process(t, c, redlock.WithWait(time.Second))
		began := time.Now()
		waiting := testkit.Start(t.Context(), other.Campaign)
		require.True(t, waiting.Waits())
		_, err = other.Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorContains(t, err, "another Campaign of this Election is under way")
		require.ErrorIs(t, waiting.Failed(t), redlock.ErrTaken)
		assert.Equal(t, time.Second, waiting.At.Sub(began))

		ctx, cancel := context.WithCancel(t.Context())
		waiting = testkit.Start(ctx, process(t, c).Campaign)
		require.True(t, waiting.Waits())
		cancel()
		require.ErrorIs(t, waiting.Failed(t), context.Canceled)

		resign(t, term)
		resign(t, elect(t, other))
		_, err = new(election.Election).Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		_, err = e.Campaign(nil) //nolint:staticcheck // It is what is tested.
		require.ErrorContains(t, err, "nil context")
	})
}

// What is won for a caller that has gone is given back.
func TestCampaignThatIsWonAsItsContextEnds(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newElection(t, testkit.NewRedlock(t, c, redlock.WithTracer(testkit.Tracer{Ends: func(redlock.Event) { cancel() }})))
		_, err := e.Campaign(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.False(t, e.IsLeader())
		testkit.RequireNothingLeft(t, c)
	})
}

// Close ends the term, and waits for its resignation.
func TestClose(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		e := newElection(t, r)
		term := elect(t, e)
		waiting := testkit.Start(t.Context(), newElection(t, r).Campaign)
		other := testkit.Start(t.Context(), process(t, c).Campaign)
		require.True(t, waiting.Waits())
		closed := make(chan error, 1)
		go func() { closed <- r.Close(context.Background()) }()
		<-term.Context().Done()
		require.ErrorIs(t, term.Err(), redlock.ErrClosed)
		require.False(t, e.IsLeader())
		require.ErrorIs(t, waiting.Failed(t), redlock.ErrClosed)
		time.Sleep(time.Second)
		require.True(t, other.Waits(), "until the work has stopped")
		require.Empty(t, closed)
		began := time.Now()
		resign(t, term)
		require.NoError(t, <-closed)
		next := other.Got(t)
		assert.Less(t, other.At.Sub(began), soon)
		_, err := e.Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		resign(t, next)
		testkit.RequireNothingLeft(t, c)
	})
}
