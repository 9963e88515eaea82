package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/election"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A report is what an observer was told.
type report struct {
	election.Leader
	err error
}

// An observer hears all changes, on a goroutine of its own.
type observer chan report

func observe(t *testing.T, e *election.Election) observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(observer, 1000)
	go func() {
		defer close(heard)
		for leader, err := range e.Observe(ctx) {
			heard <- report{leader, err}
		}
	}()
	t.Cleanup(cancel)
	return heard
}

// hears is what the observer has been told, once it has looked more than twice.
func (o observer) hears() (all []report) {
	time.Sleep(5 * look / 2)
	synctest.Wait()
	for len(o) > 0 {
		all = append(all, <-o)
	}
	return all
}

// told is the one change that the observer was told of.
func (o observer) told(t *testing.T) report {
	t.Helper()
	all := o.hears()
	require.Len(t, all, 1)
	return all[0]
}

func (o observer) requireLeader(t *testing.T, owner string, term *election.Term) {
	t.Helper()
	now := o.told(t)
	require.NoError(t, now.err)
	require.Equal(t, election.Leader{Owner: owner, Holder: lockOf(t, term).Holder()}, now.Leader)
}

func (o observer) requireNobody(t *testing.T) {
	t.Helper()
	now := o.told(t)
	require.NoError(t, now.err)
	require.Zero(t, now.Leader)
}

// requireUnknown is that nobody can tell who leads.
func (o observer) requireUnknown(t *testing.T) {
	t.Helper()
	now := o.told(t)
	require.ErrorIs(t, now.err, redlock.ErrNoQuorum)
	require.Zero(t, now.Leader)
}

func TestObserveTellsEachChangeOnce(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		o := observe(t, process(t, c))
		o.requireNobody(t)
		a, b := process(t, c, redlock.WithOwner("a")), process(t, c, redlock.WithOwner("b"))
		term := elect(t, a)
		o.requireLeader(t, "a", term)
		time.Sleep(3 * ttl)
		require.Empty(t, o.hears(), "while it is extended")
		waiting := testkit.Start(t.Context(), b.Campaign)
		require.True(t, waiting.Waits())
		resign(t, term)
		o.requireLeader(t, "b", waiting.Got(t))
		resign(t, waiting.Held)
		o.requireNobody(t)
		term = elect(t, a)
		o.requireLeader(t, "a", term)
		resign(t, term)
		term = elect(t, a)
		o.requireLeader(t, "a", term) // It is another term.
		resign(t, term)
	})
}

// What a minority of the nodes has to say is no change, nor that it says nothing.
func TestMinorityIsNoChange(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		term := elect(t, process(t, c, redlock.WithOwner("a")))
		o := observe(t, process(t, c))
		o.requireLeader(t, "a", term)
		require.NoError(t, c.First(2).Set(name, "another", time.Hour))
		require.Empty(t, o.hears())
		require.NoError(t, c.First(2).Del(name))
		require.Empty(t, o.hears())
		require.NoError(t, c.Nodes[0].Hang())
		require.NoError(t, c.Nodes[1].Stop())
		require.Empty(t, o.hears())
		resign(t, term)
		o.requireNobody(t)
		require.NoError(t, c.Nodes[2].Set(name, "another", time.Minute))
		o.requireUnknown(t) // It may have those that are silent, too.
		require.NoError(t, c.Nodes[0].Resume())
		o.requireNobody(t)
		require.NoError(t, c.Nodes[1].Restart(true))
		time.Sleep(time.Minute)
		require.Empty(t, o.hears())
	})
}

// Without a quorum nobody can tell who leads, and one look that has found no answer is none.
func TestUnknownIsTold(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		e := process(t, c, redlock.WithOwner("a"))
		term := elect(t, e)
		o := observe(t, process(t, c))
		o.requireLeader(t, "a", term)
		for range 10 {
			require.NoError(t, c.Hang())
			time.Sleep(look)
			require.NoError(t, c.Resume())
			require.Empty(t, o.hears())
		}
		require.NoError(t, term.Err())
		two := c.First(2)
		require.NoError(t, two.Stop())
		time.Sleep(look)
		o.requireUnknown(t)
		_, err := e.Leader(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `election "reports": `)
		require.ErrorContains(t, err, "1 of 3 nodes answered")
		require.NoError(t, two.Restart(true))
		o.requireLeader(t, "a", term)

		require.NoError(t, c.Stop())
		time.Sleep(2 * ttl)
		o.requireUnknown(t)
		require.NoError(t, c.Restart(true))
		o.requireNobody(t)
	})
}

// The first look may find no quorum, and the second one that nobody leads, which is told as any first thing. An observer
// that finds none twice is told so.
func TestObserverThatBeginsInDoubt(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := testkit.NewWarm(t, c)
		require.NoError(t, c.Hang())
		o := observe(t, newElection(t, r))
		time.Sleep(look)
		require.Empty(t, o)
		require.NoError(t, c.Resume())
		o.requireNobody(t)

		require.NoError(t, c.Stop())
		late := observe(t, process(t, c))
		late.requireUnknown(t)
		o.requireUnknown(t)
		require.NoError(t, c.Restart(true))
		late.requireNobody(t)
	})
}

// The last thing that an observer hears is why it hears no more. Nothing goes on after it, nor after a loop
// that was left.
func TestObserverEnds(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		e := newElection(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		rounds := 0
		for _, last = range e.Observe(ctx) {
			rounds++
			cancel()
		}
		require.Equal(t, 2, rounds)
		require.ErrorIs(t, last, context.Canceled)

		o := observe(t, e)
		o.requireNobody(t)
		began := time.Now()
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, (<-o).err, redlock.ErrClosed)
		assert.LessOrEqual(t, time.Since(began), look)
		_, open := <-o
		require.False(t, open)

		end := func(ctx context.Context, e *election.Election) (last error) {
			for _, last = range e.Observe(ctx) {
			}
			return last
		}
		require.ErrorIs(t, end(t.Context(), e), redlock.ErrClosed)
		require.Error(t, end(t.Context(), new(election.Election)))
		require.ErrorContains(t, end(nil, process(t, c)), "nil context")
	})
}

// A term is seen under its own label and digest, also if those who stand share a Redlock whose locks are passed on.
func TestTermsAreNotPassedOn(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		turn := redlock.WithTurn(500 * time.Millisecond)
		r := testkit.NewWarm(t, c, turn)
		a, b := newElection(t, r, redlock.WithOwner("a"), turn), newElection(t, r, redlock.WithOwner("b"))
		earlier := elect(t, a) // Now there is a counter on each node, and so a number for a pass.
		time.Sleep(time.Second)
		resign(t, earlier)
		term := elect(t, a)
		waiting := testkit.Start(t.Context(), b.Campaign)
		require.True(t, waiting.Waits())
		resign(t, term)
		next := waiting.Got(t)
		leader, err := a.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", leader.Owner)
		require.NotEqual(t, lockOf(t, term).Holder(), leader.Holder)
		resign(t, next)
	})
}
