package redlock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const maxTTL = 30 * time.Second

// admitted returns a Redlock with quarantine whose nodes may vote.
func admitted(t *testing.T, c *testcluster.Cluster) *redlock.Redlock {
	t.Helper()
	r := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	return r
}

func TestQuarantineOfANewClusterComesOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, ttl)
		require.NotErrorIs(t, err, redlock.ErrQuarantined, "a node's error is in the votes only")
		qe := quorumError(t, err)
		i := slices.IndexFunc(qe.Votes, func(v redlock.Vote) bool { return errors.Is(v.Err, redlock.ErrQuarantined) })
		require.GreaterOrEqual(t, i, 0)
		assert.Equal(t, maxTTL+time.Second, qe.Votes[i].HolderTTL)
		require.ErrorContains(t, qe.Votes[i].Err, "31s")
		requireReleased(t, c)
		// Lock waits for the end of it, to the millisecond, not to the next poll.
		start := time.Now()
		l := waitLock(t, r, []string{"x"}, ttl, slowly()...)
		assert.InDelta(t, maxTTL+time.Second, time.Since(start), float64(20*time.Millisecond))
		require.NoError(t, l.Unlock(t.Context()))
		tryLock(t, newRedlock(t, c, redlock.WithQuarantine(maxTTL)), []string{"x"}, ttl, redlock.WithFencing())
	})
}

// A node that has lost its data, or only restarted, grants nothing for a while, in any
// of the ways to be asked. Locks that are held go on.
func TestQuarantineHasARestartedNodeAbstain(t *testing.T) {
	for _, lose := range []func(n *testcluster.Node) error{
		func(n *testcluster.Node) error { return n.Restart(false) },
		func(n *testcluster.Node) error { return n.Restart(true) },
		func(n *testcluster.Node) error { return n.Flush() },
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r, other := admitted(t, c), newRedlock(t, c, redlock.WithQuarantine(maxTTL))
			held := tryLock(t, r, []string{"x"}, maxTTL)
			kept := tryLock(t, r, []string{"kept"}, ttl)
			synctest.Wait()
			require.NoError(t, lose(c.Nodes[0]))
			time.Sleep(3 * time.Second) // They are connected again.
			fenced := redlock.WithFencing()
			for _, opts := range [][]redlock.Option{nil, {fenced}, {fenced, redlock.WithRetryCount(2)}} {
				l := waitLock(t, other, []string{"y"}, ttl, opts...)
				synctest.Wait()
				assert.NotContains(t, keys(t, c.Nodes[0]), "y")
				assert.Contains(t, keys(t, c.Nodes[1]), "y")
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
			}
			for time.Now().Before(held.Until()) {
				_, err := other.TryLock(t.Context(), []string{"x"}, ttl)
				require.Error(t, err)
				require.NoError(t, kept.Extend(t.Context(), ttl))
				time.Sleep(time.Second)
			}
			assert.Zero(t, r.Stats().Repaired, "a repair is a grant")
			time.Sleep(5 * time.Second)
			require.NoError(t, kept.Extend(t.Context(), ttl))
			synctest.Wait()
			assert.Contains(t, keys(t, c.Nodes[0]), "kept", "its quarantine is over: it is repaired")
		})
	}
}

// Clients with one node more or less come beside those that are there, and are counted with their maxTTL. A third size
// gets nothing, after a restart either, until Admit has moved the pair on: then the size that was left behind does not.
func TestQuarantineAdmitsTwoNeighbouringSizesAndAdmitMovesThePairOn(t *testing.T) {
	for _, sizes := range [][]int{{3, 4, 5}, {3, 2, 1}} {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			slowDown(t, c)
			open := func(step int, maxTTL time.Duration) *redlock.Redlock {
				return newOver(t, nodesOf(c)[:sizes[step]], redlock.WithQuarantine(maxTTL))
			}
			markers := func() (m []quarantine.Marker) {
				synctest.Wait()
				for i := range slices.Min(sizes) {
					m = append(m, markerOf(t, c.Nodes[i]))
				}
				return m
			}
			before := open(0, maxTTL)
			require.NoError(t, before.Admit(t.Context(), names(c)[:sizes[0]]...))
			lockOnce(t, before)
			next := open(1, 2*maxTTL)
			if sizes[1] > sizes[0] { // An operator knows that nobody has used the new node.
				require.NoError(t, next.Admit(t.Context(), names(c)[sizes[1]-1]))
			} else { // A node that leaves has been stopped, or it would go on voting for those that still list it.
				require.NoError(t, c.Nodes[sizes[0]-1].Stop())
			}
			lockOnce(t, next)
			lockOnce(t, before)
			require.NoError(t, c.Nodes[0].Restart(true))
			time.Sleep(3 * time.Second) // They are connected again.
			third := open(2, 4*maxTTL)
			err := refusal(t, redlock.ErrNoQuorum, third, []string{"x"}, ttl)
			smaller := min(sizes[0], sizes[1])
			require.ErrorContains(t, err, fmt.Sprintf("set up for clients with %d or %d nodes", smaller, smaller+1))
			for _, m := range markers() {
				assert.Equal(t, []int{sizes[0], sizes[1]}, []int{m.Nodes, m.Other})
				assert.Equal(t, 2*maxTTL, m.MaxTTL, "a neighbour's counts, and that of who is refused does not")
			}
			require.ErrorIs(t, third.Stats().Nodes[0].Abstains, redlock.ErrConfigMismatch)
			require.NoError(t, third.Close(t.Context()))
			time.Sleep(2*maxTTL + 2*time.Second)

			require.NoError(t, next.Admit(t.Context(), names(c)[:sizes[1]]...))
			for _, m := range markers() {
				assert.Equal(t, []int{sizes[1], 0}, []int{m.Nodes, m.Other})
			}
			third = open(2, maxTTL)
			if sizes[2] > sizes[1] {
				require.NoError(t, third.Admit(t.Context(), names(c)[sizes[2]-1]))
			}
			lockOnce(t, third)
			lockOnce(t, next)
			synctest.Wait()
			require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, before, []string{"x"}, ttl), "set up for")
		})
	}
}

func lockOnce(t *testing.T, r *redlock.Redlock) {
	t.Helper()
	cycle(t, r, "once", ttl)
	synctest.Wait()
}

// A client with a larger maxTTL has its locks at once, as do those with the smaller one,
// where the nodes have been up for as long as the larger one. From then on the nodes
// abstain for the larger one, until Admit.
func TestQuarantineTakesNoStepForARollingRaiseOfMaxTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		small := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		refused(t, redlock.ErrNoQuorum, small, []string{"x"}, ttl)
		time.Sleep(2*maxTTL + time.Second)
		lockOnce(t, small)
		large := newRedlock(t, c, redlock.WithQuarantine(2*maxTTL))
		for range 3 {
			lockOnce(t, large)
			lockOnce(t, small)
			time.Sleep(time.Second)
		}
		for _, n := range c.Nodes {
			m := markerOf(t, n)
			assert.Equal(t, 2*maxTTL, m.MaxTTL)
			assert.True(t, m.Votes)
		}
		require.NoError(t, large.Close(t.Context())) // Also if they restart again before they vote.
		for range 3 {
			time.Sleep(maxTTL)
			require.NoError(t, c.Restart(true))
		}
		time.Sleep(3 * time.Second) // They are connected again.
		require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, small, []string{"x"}, ttl), "quarantined for another 58")
		synctest.Wait()
		require.ErrorIs(t, small.Stats().Nodes[0].Abstains, redlock.ErrQuarantined)
		require.NoError(t, small.Admit(t.Context(), names(c)...))
		lockOnce(t, small)
		synctest.Wait()
		assert.Equal(t, maxTTL, markerOf(t, c.Nodes[0]).MaxTTL)
		lockOnce(t, newRedlock(t, c, redlock.WithQuarantine(2*maxTTL))) // Admitted is admitted, for every maxTTL.
		assert.Equal(t, 2*maxTTL, markerOf(t, c.Nodes[0]).MaxTTL)
	})
}

// A node that is met by the smaller maxTTL first abstains for the larger one from when
// that is heard of, also if it has voted meanwhile: counted from when the run was first seen.
func TestQuarantineCountsALargerMaxTTLFromWhenTheRunWasFirstSeen(t *testing.T) {
	for _, later := range []time.Duration{maxTTL / 2, maxTTL + 10*time.Second} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			slowDown(t, c)
			small := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
			start := time.Now()
			_, err := small.TryLock(t.Context(), []string{"x"}, ttl)
			require.Error(t, err)
			time.Sleep(later)
			if later > maxTTL {
				lockOnce(t, small)
				synctest.Wait()
				require.NoError(t, small.Stats().Nodes[0].Abstains)
			}
			large := newRedlock(t, c, redlock.WithQuarantine(2*maxTTL))
			for _, r := range []*redlock.Redlock{large, small} {
				require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, ttl), "quarantined")
			}
			l := waitLock(t, small, []string{"x"}, ttl, slowly()...)
			assert.InDelta(t, 2*maxTTL+time.Second, time.Since(start), float64(20*time.Millisecond))
			require.NoError(t, l.Unlock(t.Context()))
			lockOnce(t, large)
		})
	}
}

func TestQuarantineKeepsTheLargestMaxTTLAfterARestart(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		small, large := admitted(t, c), newRedlock(t, c, redlock.WithQuarantine(2*maxTTL))
		lockOnce(t, large)
		require.NoError(t, large.Close(t.Context()))
		for range 3 {
			time.Sleep(maxTTL)
			require.NoError(t, c.Restart(true))
		}
		time.Sleep(3 * time.Second)
		require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, small, []string{"x"}, ttl), "quarantined for another 58")
		synctest.Wait()
	})
}

// Who is not heard of by the restarted node itself, but holds its locks through others,
// needs nothing of it: they refuse. And the node is asked for what it lost as soon as its
// holder extends it.
func TestQuarantineHearsOfALargerMaxTTLInARepair(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		small, large := admitted(t, c), newRedlock(t, c, redlock.WithQuarantine(4*maxTTL))
		held := lockOnAll(t, large, []string{"x"}, 4*maxTTL)
		require.NoError(t, c.Nodes[0].Flush())
		lockOnce(t, small)
		synctest.Wait()
		assert.Equal(t, maxTTL, markerOf(t, c.Nodes[0]).MaxTTL)
		time.Sleep(maxTTL + 2*time.Second)
		refused(t, redlock.ErrTaken, small, []string{"x"}, ttl)
		time.Sleep(time.Millisecond) // It has given back what it had on the first node.
		require.NoError(t, held.Extend(t.Context(), 4*maxTTL))
		time.Sleep(time.Millisecond)
		m := markerOf(t, c.Nodes[0])
		assert.Equal(t, 4*maxTTL, m.MaxTTL)
		assert.False(t, m.Votes)
	})
}

// A node's clock that is set back does not prolong the quarantine by as much.
func TestQuarantineDoesNotOutlastAClockThatIsSetBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.Error(t, err)
		synctest.Wait()
		for _, n := range c.Nodes {
			m := markerOf(t, n)
			text := fmt.Sprintf("%s waits 3 30000 %d", m.Run, m.Since.Add(time.Hour).UnixMilli())
			require.NoError(t, n.Set(testkit.MarkerKey, text, 0))
		}
		start := time.Now()
		waitLock(t, r, []string{"x"}, ttl, slowly()...)
		assert.InDelta(t, maxTTL+time.Second, time.Since(start), float64(20*time.Millisecond))
	})
}

// longMaxTTL is that of the tests on servers.
const longMaxTTL = time.Minute

// The texts of a run are learnt by an EVAL that looks, so that one that comes to another
// run has corrected the marker; and what a server has forgotten is not taught again.
func TestQuarantineTextOfAnEarlierRunOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	r := newPatient(t, nodesOf(c), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	cycle(t, r, "warm", time.Second)
	conn := adminConn(t, n)
	fast := redlock.NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(redlock.LockScript)
	known := func(s *node.Script) bool {
		found, failed := redis.Ints(conn.Do("SCRIPT", "EXISTS", s.Hash))
		require.NoError(t, failed)
		return found[0] == 1
	}
	require.True(t, known(fast))
	require.NoError(t, n.FlushScripts())
	cycle(t, r, "x", time.Second)
	assert.False(t, known(fast))
	assert.True(t, known(redlock.GrantingScripts.Slow(redlock.LockScript)))

	earlier := strings.Repeat("ab", 20)
	nodes, maxTTL := "1", longMaxTTL.Milliseconds()
	require.NoError(t, n.Set(testkit.MarkerKey, earlier+" votes "+nodes+" 2000 0", time.Hour))
	stray := redlock.GrantingScripts.Fast(earlier, testkit.MarkerKey, nodes)[redlock.LockScript]
	other := redlock.GrantingScripts.Fast(earlier, "p:"+testkit.MarkerKey, nodes)[redlock.LockScript]
	require.NotEqual(t, stray.Hash, other.Hash, "or it would hide the restart from clients with another prefix")
	for _, look := range []string{"1", "0"} {
		args := []any{stray.Source, 3, "x", "stone", testkit.MarkerKey, "token", 1000, 1, look, nodes, maxTTL}
		answer, err := redis.Values(conn.Do("EVAL", args...))
		require.NoError(t, err)
		assert.Equal(t, "Q", string(answer[0].([]byte)))
	}
	require.Empty(t, keys(t, n))
	state, _, err := n.Get(testkit.MarkerKey)
	require.NoError(t, err)
	assert.NotContains(t, state, earlier)
}

// A node that hears of a larger maxTTL abstains at once, also if it has forgotten it since
// the client with it connected; and each client has its way with the texts of the run.
func TestQuarantineHearsOfALargerMaxTTLInEveryRequestOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	small := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	large := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(time.Hour))
	require.NoError(t, small.Admit(t.Context(), names(c)...))
	for range 3 { // The first time, large connects.
		cycle(t, large, "x", time.Second)
		require.Equal(t, time.Hour, markerOf(t, n).MaxTTL)
		cycle(t, small, "x", time.Second)
		require.NoError(t, small.Admit(t.Context(), names(c)...))
		require.Equal(t, longMaxTTL, markerOf(t, n).MaxTTL)
	}
	require.NoError(t, n.Flush())
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, small, []string{"x"}, time.Second), "quarantined")
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, large, []string{"x"}, time.Second), "quarantined for another 1h0m")
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, small, []string{"x"}, time.Second), "quarantined for another 1h0m")
	require.NoError(t, large.Admit(t.Context(), names(c)...))
	cycle(t, small, "x", time.Second)
}

// While clients of two sizes come, neither needs an INFO for a lock.
func TestQuarantineFastTextsServeBothSizesOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 2)
	one := newPatient(t, nodesOf(c)[:1], redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	two := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, one.Admit(t.Context(), names(c)[0]))
	require.NoError(t, two.Admit(t.Context(), names(c)[1]))
	conn := adminConn(t, c.Nodes[0])
	for _, r := range []*redlock.Redlock{one, two, one} {
		cycle(t, r, "warm", time.Second)
		_, err := conn.Do("CONFIG", "RESETSTAT")
		require.NoError(t, err)
		cycle(t, r, "x", time.Second)
		stats, err := redis.String(conn.Do("INFO", "commandstats"))
		require.NoError(t, err)
		assert.Contains(t, stats, "cmdstat_evalsha:")
		assert.NotContains(t, stats, "cmdstat_info:")
	}
	assert.Equal(t, 2, markerOf(t, c.Nodes[0]).Other)
}

// A server that refuses writes does not even cache a text that names a run.
func TestQuarantineLookThatIsRefusedLeavesNoTextOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	conn := adminConn(t, n)
	text := redlock.GrantingScripts.Fast(strings.Repeat("ab", 20), "marker", "1")[redlock.LockScript]
	known := func() int {
		found, err := redis.Ints(conn.Do("SCRIPT", "EXISTS", text.Hash))
		require.NoError(t, err)
		return found[0]
	}
	for _, test := range []struct{ refuse, accept []any }{
		{[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		for i, command := range [][]any{test.refuse, test.accept} {
			_, err := conn.Do(command[0].(string), command[1:]...)
			require.NoError(t, err)
			_, err = conn.Do("EVAL", text.Source, 1, "marker", "1", "1", longMaxTTL.Milliseconds())
			assert.Equal(t, i == 0, err != nil, command)
			assert.Equal(t, i, known(), command)
			require.NoError(t, n.FlushScripts())
		}
	}
}
