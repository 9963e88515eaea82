package redlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What may come late is released again and again: 20 ms after the answer to its release, then 40, 80 and
// so on.

// trip is what a round trip takes where it takes any time.
const trip = 2 * time.Millisecond

// breakLate has an attempt on "a", for a ttl, fail, as all connections break with its lock requests on their way. They
// reach the nodes so late after that, which is when it returns.
func breakLate(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, ttl, late time.Duration) (broke time.Time) {
	t.Helper()
	warm(t, r)
	synctest.Wait() // The last node is connected, too.
	require.NoError(t, c.Slow(trip/2, trip/2))
	failed := meanwhile(func() error { return lockError(r.TryLock(t.Context(), []string{"a"}, ttl)) })
	synctest.Wait()
	for _, n := range c.Nodes {
		n.Proxy().LateBytes(late, late)
		n.Proxy().Reset()
	}
	require.ErrorIs(t, <-failed, redlock.ErrNoQuorum)
	return time.Now()
}

// requireLate checks that something has come late. On the last node the release of the attempt, which had
// failed by the others, may have been sent before the connection broke: then it comes late, too.
func requireLate(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	late := 0
	for _, n := range c.Nodes {
		if _, is := keys(t, n)["a"]; is {
			late++
		}
	}
	require.GreaterOrEqual(t, late, len(c.Nodes)-1)
}

// What comes late by t is gone by 2 t + 20 ms and two round trips; for a minute, also where its ttl is shorter. Who waits
// for it in another process is told, also though the attempt's own release, which has failed, tells nobody.
func TestRepeatReleasesWhatComesLate(t *testing.T) {
	lives := map[time.Duration]time.Duration{100 * time.Millisecond: time.Hour, 59 * time.Second: 30 * time.Second}
	for late, life := range lives {
		runInBubble(t, fmt.Sprint(late, ", ttl ", life), 3, func(t *testing.T, c *testcluster.Cluster) {
			r, other := newRedlock(t, c), newWarm(t, c)
			broke := breakLate(t, c, r, life, late)
			time.Sleep(late)
			synctest.Wait()
			requireLate(t, c)
			l := waitLock(t, other, []string{"a"}, ttl, every(time.Hour, -1)...)
			// It is found and released, and the next one is told and asks.
			assert.LessOrEqual(t, time.Since(broke), 2*late+20*time.Millisecond+2*trip+2*trip)
			assert.Less(t, time.Since(broke), late+life-time.Second, "it would not end by itself")
			require.NoError(t, l.Unlock(t.Context()))
			requireReleased(t, c)
		})
	}
}

// An extension that comes late finds the keys that the release has left, and gives them a whole ttl. If it comes
// late by t, that is undone by 2 t. The min hold is not cut short.
func TestRepeatUndoesWhatALateExtensionDoes(t *testing.T) {
	const late = 500 * time.Millisecond
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newWarm(t, c)
		minHold, start := late+2*time.Second, time.Now()
		l := lockOnAll(t, r, []string{"a"}, time.Hour, redlock.WithMinHold(minHold))
		require.NoError(t, c.Slow(50*time.Millisecond, 50*time.Millisecond))
		go func() { _ = l.Extend(t.Context(), time.Hour) }()
		for r.Stats().Nodes[0].Backlog == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.NoError(t, c.Slow(0, 0)) // What is on its way keeps its delay, and no new connection gets one.
		for i, n := range c.Nodes {
			require.Equal(t, 1, r.Stats().Nodes[i].Backlog, "the extension is under way")
			n.Proxy().LateBytes(late, late)
			n.Proxy().Reset()
		}
		synctest.Wait() // Each node has a connection again.
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		released, keep := time.Now(), start.Add(minHold)
		for _, n := range c.Nodes {
			assert.WithinDuration(t, keep, time.Now().Add(keys(t, n)["a"].TTL), time.Millisecond)
		}
		time.Sleep(late)
		synctest.Wait()
		require.Greater(t, keys(t, c.Nodes[0])["a"].TTL, 59*time.Minute, "it has come")
		w := startLock(t, other, []string{"a"}, every(2*time.Hour, -1)...)
		time.Sleep(time.Until(keep.Add(-time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.LessOrEqual(t, w.at.Sub(released), max(keep.Sub(released), 2*late+20*time.Millisecond)+10*time.Millisecond)
		requireReleased(t, c)
	})
}

// The same where something on the way has answered the extension with an error. What the server itself has refused
// cannot come late; and without a min hold an extension that does finds no key.
func TestRepeatReckonsWithALateExtension(t *testing.T) {
	minHold := redlock.WithMinHold(30 * time.Second)
	for name, test := range map[string]struct {
		answer  string
		opts    []redlock.Option
		repeats int
	}{
		"an error of something on the way": {"ERR upstream timeout", []redlock.Option{minHold}, 1},
		"a refusal":                        {"BUSY x", []redlock.Option{minHold}, 0},
		"no min hold":                      {"ERR upstream timeout", nil, 0},
	} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			l := lockOnAll(t, r, []string{"a"}, time.Hour, test.opts...)
			require.NoError(t, c.Nodes[0].SetError(test.answer))
			require.NoError(t, l.Extend(t.Context(), time.Hour))
			synctest.Wait()
			require.NoError(t, c.Nodes[0].SetError(""))
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			require.Equal(t, test.repeats, r.Stats().Nodes[0].Repeats)
		})
	}
}

// A node that is away is owed a release for as long as the longest ttl that its keys may have been given.
func TestOwedReleaseIsKeptForTheLongestTTL(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, ttl)
		for _, life := range []time.Duration{10 * time.Minute, time.Second} {
			require.NoError(t, l.Extend(t.Context(), life))
			synctest.Wait()
		}
		require.NoError(t, c.Nodes[2].Stop())
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(8 * time.Minute)
		require.Equal(t, l.Token(), keys(t, c.Nodes[2])["a"].Value)
		require.NoError(t, c.Nodes[2].Restart(true))
		time.Sleep(2 * time.Second)
		requireNoKeys(t, c)
	})
}
