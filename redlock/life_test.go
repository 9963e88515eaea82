package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestReadyTakesAQuorumOfVotes(t *testing.T) {
	for n, need := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		withRedlock(t, n, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			require.NoError(t, r.Ready(t.Context()), "it connects to nodes that nobody has needed")
			synctest.Wait()
			for down := 1; down <= n; down++ {
				require.NoError(t, c.Nodes[down-1].Stop())
				time.Sleep(3 * time.Second)
				err := r.Ready(t.Context())
				if n-down >= need {
					require.NoError(t, err, "%d of %d are down", down, n)
					continue
				}
				require.ErrorIs(t, err, redlock.ErrNoQuorum, "%d of %d are down", down, n)
				require.ErrorContains(t, err, c.Nodes[0].Name()+": not connected: ")
			}
			require.NoError(t, c.Restart(true))
			time.Sleep(3 * time.Second)
			require.NoError(t, r.Ready(t.Context()))
		})
	}
}

// Nodes that hang before the first connection are waited for as a lock waits.
func TestReadyWithNodesThatHang(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.First(2).Hang())
		r := newRedlock(t, c)
		assert.LessOrEqual(t, took(func() { require.ErrorIs(t, r.Ready(t.Context()), redlock.ErrNoQuorum) }), redlock.DefaultConnectTimeout)
		ctx := within(t, time.Millisecond)
		assert.Equal(t, time.Millisecond, took(func() { require.ErrorIs(t, newRedlock(t, c).Ready(ctx), context.DeadlineExceeded) }))
	})
}

func TestReadyIsNotAQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		require.ErrorIs(t, r.Ready(t.Context()), redlock.ErrNoQuorum)
		synctest.Wait()
		err := r.Ready(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "redlock: not ready: 0 of 3 nodes would vote, 2 needed (node1: quarantined for another 31s; node2: ")
		other := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		require.NoError(t, other.Admit(t.Context(), names(c)...))
		require.NoError(t, r.Ready(t.Context()), "another process has admitted them, and this one has asked for no lock")
		requireNoKeys(t, c)
	})
}

func TestReadyOfNodesThatAreSetUpForOthers(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		admitted(t, c.First(3))
		r := newRedlock(t, c, redlock.WithQuarantine(maxTTL))
		err := r.Ready(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "set up for clients with 3 nodes")
		admitted(t, c)
		require.NoError(t, r.Ready(t.Context()))
	})
}

func TestReadyDoesNotCountNodesThatRefuse(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.First(2).SetError("OOM command not allowed"))
		for range 10 {
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.Error(t, err)
			time.Sleep(time.Second)
		}
		require.ErrorContains(t, r.Ready(t.Context()), "OOM")
	})
}

// A lockedBuffer is written to by several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// listen has the default logger collect lines, until the test ends, and returns what takes those about nodes of
// firstDay; other tests log, too.
func listen(t *testing.T) (take func() []string) {
	t.Helper()
	before := slog.Default()
	var b lockedBuffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		lines := slices.Collect(strings.Lines(b.text.String()))
		b.text.Reset()
		return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "first-day") })
	}
}

// firstDay returns the nodes, of which the last ones cannot be connected to.
func firstDay(c *testcluster.Cluster, wrong int) []redlock.Node {
	nodes := nodesOf(c)
	for i := range nodes {
		nodes[i].Name = "first-day-" + nodes[i].Name
		if i >= len(nodes)-wrong {
			nodes[i].Pool = redlock.PoolFunc(func(context.Context) (redis.Conn, error) { return nil, errors.New("no such host") })
		}
	}
	return nodes
}

func TestNodeThatWasNeverUpIsLoggedOnce(t *testing.T) {
	take := listen(t)
	for _, tt := range []struct {
		n, wrong int
		left     string
	}{
		{3, 1, `with one more failure nothing can be locked" node=first-day-node3 error="not connected: no such host" connected=2 nodes=3 quorum=2`},
		{5, 1, `1 more may fail before nothing can be locked" node=first-day-node5 error="not connected: no such host" connected=4 nodes=5 quorum=3`},
		{3, 2, `nothing can be locked" node=first-day-node`},
		{4, 1, `with one more failure nothing can be locked" node=first-day-node4 error="not connected: no such host" connected=3 nodes=4 quorum=3`},
	} {
		inBubble(t, tt.n, func(t *testing.T, c *testcluster.Cluster) {
			r := newOver(t, firstDay(c, tt.wrong))
			require.Empty(t, take(), "nobody has needed it yet")
			_, _ = r.TryLock(t.Context(), []string{"x"}, ttl)
			time.Sleep(redlock.DefaultConnectTimeout / 2)
			require.Empty(t, take(), "not before the connect timeout")
			time.Sleep(10 * time.Second)
			lines := take()
			require.Len(t, lines, tt.wrong)
			for _, line := range lines {
				assert.Contains(t, line, "redlock: a node could not be connected to since the start: "+tt.left)
			}
			time.Sleep(time.Hour)
			assert.Empty(t, take())
		})
	}
}

func TestNothingIsLoggedOf(t *testing.T) {
	take := listen(t)
	nothing := func(name string, wrong int, then func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster), opts ...redlock.Option) {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newOver(t, firstDay(c, wrong), append(opts, redlock.WithNodeTimeout(100*time.Millisecond))...)
			warm(t, r)
			then(t, r, c)
			time.Sleep(time.Minute)
			assert.Empty(t, take())
		})
	}
	done := func(*testing.T, *redlock.Redlock, *testcluster.Cluster) {}
	nothing("a hook", 1, done, redlock.WithHook(func(context.Context, redlock.Event) {}))
	nothing("WithoutLog", 1, done, redlock.WithoutLog())
	nothing("Close", 1, func(t *testing.T, r *redlock.Redlock, _ *testcluster.Cluster) {
		require.NoError(t, r.Close(t.Context()))
	})
	nothing("a node that was up", 0, func(t *testing.T, _ *redlock.Redlock, c *testcluster.Cluster) { require.NoError(t, c.Nodes[2].Stop()) })
	runInBubble(t, "a node that starts late", 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Nodes[2].Stop())
		r := newOver(t, firstDay(c, 0))
		_, _ = r.TryLock(t.Context(), []string{"x"}, ttl)
		time.Sleep(redlock.DefaultConnectTimeout / 2)
		require.NoError(t, c.Nodes[2].Restart(true))
		time.Sleep(time.Minute)
		assert.Empty(t, take())
	})
}

func TestCloseEndsWaitsAndKeepsHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1))
		l := tryLock(t, r, []string{"a"}, ttl)
		done := meanwhile(func() error { return lockError(r.Lock(context.Background(), []string{"a"}, ttl)) })
		time.Sleep(time.Second)
		assert.Zero(t, took(func() { require.NoError(t, r.Close(t.Context())) }))
		err := <-done
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, 3, holders(t, c, l), "a lock in use is not released")
		require.NoError(t, l.Err())
		require.ErrorIs(t, r.Ready(t.Context()), redlock.ErrClosed)
		err = l.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrClosed, "it says that it was Close")
		require.NoError(t, r.Close(t.Context()), "idempotent")
	})
}

// A release that is asked for when the last PINGs are on their way is still answered.
func TestCloseWaitsForAReleaseBehindItsLastPing(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, time.Hour)
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		closed := meanwhile(func() error { return r.Close(context.Background()) })
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, <-closed)
		requireNoKeys(t, c)
	})
}

// Close makes one round of repetitions within the node timeout, and waits for no more.
func TestCloseRepeatsOnce(t *testing.T) {
	for name, hang := range map[string]bool{"in time": false, "a node hangs": true} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			breakLate(t, c, r, time.Hour, 11*time.Second)
			time.Sleep(12 * time.Second) // The next repetition comes after 20.46 s.
			require.NotEmpty(t, keys(t, c.Nodes[0]))
			if hang {
				require.NoError(t, c.Nodes[2].Hang())
			}
			start := time.Now()
			err := r.Close(t.Context())
			took := time.Since(start)
			for _, n := range c.Nodes[:2] {
				assert.Empty(t, keys(t, n))
			}
			require.NoError(t, err)
			if hang {
				assert.LessOrEqual(t, took, redlock.DefaultNodeTimeout)
				require.NoError(t, c.Nodes[2].Resume())
				return
			}
			assert.LessOrEqual(t, took, 3*trip)
			assert.Empty(t, keys(t, c.Nodes[2]))
		})
	}
}
