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

func TestNewRefuses(t *testing.T) {
	r := testkit.NewOver(t, testkit.ForbiddenNodes(t, 3))
	for _, c := range []struct {
		r    *redlock.Redlock
		name string
		ttl  time.Duration
		opt  redlock.Option
		says string
	}{
		{nil, name, ttl, redlock.WithWait(0), `election "reports": redlock: nil *Redlock`},
		{r, "", ttl, redlock.WithWait(0), `election "": redlock: `},
		{r, name, -ttl, redlock.WithWait(0), `-10s`},
		{r, name, ttl, redlock.WithOwner("a\nb"), `"a\nb"`},
		{r, name, ttl, redlock.WithStopTime(time.Hour), `1h0m0s`},
	} {
		_, err := election.New(c.r, c.name, c.ttl, c.opt)
		require.ErrorContains(t, err, c.says)
	}
	_, err := election.New(r, name, ttl, redlock.WithWait(time.Second), redlock.WithStopTime(time.Second), redlock.WithOwner("a"))
	require.NoError(t, err)
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
			waiting := start(t.Context(), next)
			require.True(t, waiting.waits())
			require.False(t, next.IsLeader())
			time.Sleep(3 * ttl) // It is extended.
			require.True(t, waiting.waits())

			began := time.Now()
			require.NoError(t, term.Err())
			resign(t, term)
			require.False(t, leader.IsLeader())
			require.ErrorIs(t, term.Err(), context.Canceled)
			require.ErrorIs(t, term.Context().Err(), context.Canceled)
			term = waiting.won(t)
			require.Less(t, waiting.at.Sub(began), soon)
		}
		resign(t, term)
		require.NoError(t, term.Resign(t.Context()), "as of a lock")
		requireNothingLeft(t, c)
	})
}

// A leader that dies without a word is followed when its ttl is over.
func TestDeadLeaderIsFollowed(t *testing.T) {
	testkit.WithRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		dead := newElection(t, r)
		ctx, die := context.WithCancel(t.Context())
		first, err := dead.Campaign(ctx)
		require.NoError(t, err)
		waiting := start(t.Context(), process(t, c))
		time.Sleep(2*ttl + ttl/3)
		require.True(t, waiting.waits())
		began := time.Now()
		die() // Its lock stays.
		term := waiting.won(t)
		assert.LessOrEqual(t, waiting.at.Sub(began), ttl+300*time.Millisecond)
		assert.Greater(t, waiting.at, lockOf(t, first).Until())
		assert.False(t, dead.IsLeader())
		require.ErrorIs(t, first.Err(), context.Canceled)
		assert.Greater(t, term.Fence(), first.Fence())
		require.ErrorIs(t, first.Resign(t.Context()), redlock.ErrExpired)
		require.NoError(t, term.Err())
		resign(t, term)
		requireNothingLeft(t, c)
	})
}

// A minority of nodes that is down or hangs disturbs neither a leader nor the next one. Without a quorum the
// term ends in time, and the next one begins after it.
func TestNodesDown(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c, redlock.WithStopTime(2*time.Second)), process(t, c)
		term := elect(t, a)
		waiting := start(t.Context(), b)
		time.Sleep(ttl) // The lock is on all nodes, also where b came first.
		require.NoError(t, c.Nodes[0].Hang())
		require.NoError(t, c.Nodes[1].Stop())
		time.Sleep(10 * ttl)
		require.True(t, waiting.waits())
		require.NoError(t, term.Err())
		began := time.Now()
		resign(t, term)
		term = waiting.won(t)
		assert.Less(t, waiting.at.Sub(began), soon)
		waiting = start(t.Context(), a)
		require.True(t, waiting.waits())
		resign(t, term)
		term = waiting.won(t)

		waiting = start(t.Context(), b)
		require.True(t, waiting.waits())
		require.NoError(t, c.Nodes[2].Hang())
		<-term.Context().Done()
		lock := lockOf(t, term)
		require.Equal(t, 2*time.Second, time.Until(lock.Until()))
		require.ErrorIs(t, term.Err(), redlock.ErrStopTime)
		require.False(t, a.IsLeader(), "though the lock is held, for the work to stop")
		require.NoError(t, lock.Err())
		time.Sleep(ttl)
		require.ErrorIs(t, term.Resign(t.Context()), redlock.ErrExpired)
		require.True(t, waiting.waits(), "while there is no quorum")
		require.NoError(t, c.Nodes[0].Resume())
		next := waiting.won(t)
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
		requireNothingLeft(t, c)
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
		<-term.Context().Done()
		require.ErrorIs(t, term.Err(), redlock.ErrLost)
		require.False(t, e.IsLeader())
		require.Greater(t, other.Fence(), term.Fence())
		require.ErrorIs(t, term.Resign(t.Context()), redlock.ErrLost)
		require.NoError(t, other.Err())
		waiting := start(t.Context(), e)
		require.True(t, waiting.waits())
		resign(t, other)
		term = waiting.won(t)
		require.True(t, e.IsLeader())
		resign(t, term)
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
		waiting := start(t.Context(), other)
		require.True(t, waiting.waits())
		_, err = other.Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorContains(t, err, "another Campaign of this Election is under way")
		<-waiting.done
		require.ErrorIs(t, waiting.err, redlock.ErrTaken)
		assert.Equal(t, time.Second, waiting.at.Sub(began))

		ctx, cancel := context.WithCancel(t.Context())
		waiting = start(ctx, process(t, c))
		require.True(t, waiting.waits())
		cancel()
		<-waiting.done
		require.ErrorIs(t, waiting.err, context.Canceled)
		require.ErrorIs(t, waiting.err, redlock.ErrNotAcquired)

		resign(t, term)
		resign(t, elect(t, other))
		_, err = new(election.Election).Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		_, err = e.Campaign(nil) //nolint:staticcheck // It is what is tested.
		require.ErrorContains(t, err, "nil context")
	})
}

// canceller ends the context of a call as it gets its lock.
type canceller struct{ cancel context.CancelFunc }

func (canceller) Begin(ctx context.Context, _ redlock.Op, _ []string) context.Context { return ctx }
func (canceller) Event(context.Context, redlock.Event)                                {}
func (canceller) Wants(context.Context, redlock.EventKind) bool                       { return true }

func (c canceller) End(_ context.Context, e redlock.Event) {
	if e.Kind == redlock.EventAcquired {
		c.cancel()
	}
}

// What is won for a caller that has gone is given back.
func TestCampaignThatIsWonAsItsContextEnds(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newElection(t, testkit.NewRedlock(t, c, redlock.WithTracer(canceller{cancel})))
		_, err := e.Campaign(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.False(t, e.IsLeader())
		requireNothingLeft(t, c)
	})
}

// Close ends the term, and waits for its resignation.
func TestClose(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		e := newElection(t, r)
		term := elect(t, e)
		waiting := start(t.Context(), newElection(t, r))
		other := start(t.Context(), process(t, c))
		require.True(t, waiting.waits())
		closed := make(chan error, 1)
		go func() { closed <- r.Close(context.Background()) }()
		<-term.Context().Done()
		require.ErrorIs(t, term.Err(), redlock.ErrClosed)
		require.False(t, e.IsLeader())
		<-waiting.done
		require.ErrorIs(t, waiting.err, redlock.ErrClosed)
		time.Sleep(time.Second)
		require.True(t, other.waits(), "until the work has stopped")
		require.Empty(t, closed)
		began := time.Now()
		resign(t, term)
		require.NoError(t, <-closed)
		next := other.won(t)
		assert.Less(t, other.at.Sub(began), soon)
		_, err := e.Campaign(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		resign(t, next)
		requireNothingLeft(t, c)
	})
}

func TestFormat(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		e := process(t, c)
		require.Equal(t, `election "reports": leads: false`, fmt.Sprintf("%v", e))
		term := elect(t, e)
		require.Equal(t, `election "reports": leads: true`, fmt.Sprintf("%+v", e))
		text := fmt.Sprintf("%#v", term)
		require.Contains(t, text, `lock ["reports"]: held for another `)
		require.NotContains(t, text, lockOf(t, term).Token()[:16])
		resign(t, term)
		require.False(t, new(election.Election).IsLeader())
		require.NotEmpty(t, fmt.Sprint(new(election.Election)))
	})
}
