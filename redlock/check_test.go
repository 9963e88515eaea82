package redlock_test

import (
	"context"
	"errors"
	"slices"
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

// The embedded servers know neither CONFIG nor most of INFO, as a managed Redis may.
func TestCheckOfServersThatTellNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		report, err := r.Check(t.Context())
		require.NoError(t, err)
		assert.Equal(t, redlock.VerdictUnknown, report.Verdict(), report)
		for _, n := range c.Nodes {
			for _, check := range []string{"version", "cluster", "eviction", "memory", "persistence", "timeout", "same-server"} {
				assert.Equal(t, redlock.VerdictUnknown, found(t, report, n.Name(), check).Verdict, check)
			}
			for _, check := range []string{"reachable", "round-trip", "acl", "writes", "clock"} {
				assert.Equal(t, redlock.VerdictOK, found(t, report, n.Name(), check).Verdict, check)
			}
			all, keysErr := n.Keys()
			require.NoError(t, keysErr)
			assert.Empty(t, all)
		}
		// Locks do not need it.
		cycle(t, r, "a", ttl)
	})
}

func TestCheckIsBounded(t *testing.T) {
	for name, act := range map[string]func(*testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
		"stopped":    (*testcluster.Node).Stop,
		"loading":    func(n *testcluster.Node) error { return n.SetError("LOADING the dataset") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c, redlock.WithNodeTimeout(200*time.Millisecond))
				warm(t, r)
				synctest.Wait()
				for _, n := range c.Nodes[1:] {
					require.NoError(t, act(n))
				}
				start := time.Now()
				report, err := r.Check(t.Context())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), 2*time.Second)
				assert.Equal(t, redlock.VerdictUnfit, report.Verdict())
				require.Len(t, report.Nodes, 3)
				assert.Equal(t, redlock.VerdictOK, found(t, report, c.Nodes[0].Name(), "reachable").Verdict)
				for _, n := range c.Nodes[1:] {
					check := "reachable"
					if name == "loading" {
						check = "writes"
						assert.Equal(t, redlock.VerdictUnknown, found(t, report, n.Name(), "acl").Verdict)
						assert.Equal(t, redlock.VerdictUnknown, found(t, report, n.Name(), "clock").Verdict)
					}
					assert.Equal(t, redlock.VerdictUnfit, found(t, report, n.Name(), check).Verdict)
				}
			})
		})
	}
}

func TestCheckOfSlowNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for i, d := range []time.Duration{5, 50, 150} {
			require.NoError(t, c.Nodes[i].Slow(d*time.Millisecond, d*time.Millisecond))
		}
		r := newRedlock(t, c)
		report, err := r.Check(t.Context())
		require.NoError(t, err)
		for i, want := range []redlock.Verdict{redlock.VerdictOK, redlock.VerdictWarning, redlock.VerdictUnfit} {
			assert.Equal(t, want, found(t, report, c.Nodes[i].Name(), "round-trip").Verdict, report)
			assert.Equal(t, redlock.VerdictOK, found(t, report, c.Nodes[i].Name(), "clock").Verdict, report)
		}
	})
}

func TestCheckEndsWithItsContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.Check(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, c.Hang())
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err = r.Check(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 30*time.Millisecond, time.Since(start))
	})
}

func TestCheckEndsWithClose(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Hang())
		r := newRedlock(t, c)
		checked := make(chan error)
		go func() {
			_, err := r.Check(context.Background())
			checked <- err
		}()
		synctest.Wait()
		start := time.Now()
		closed := make(chan error)
		go func() { closed <- r.Close(context.Background()) }()
		require.ErrorIs(t, <-checked, redlock.ErrClosed)
		require.NoError(t, <-closed)
		assert.Zero(t, time.Since(start))
		_, err := r.Check(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

// Neither waits for the other, whoever has the only connection, and none is lost.
func TestCheckOverPoolsOfOneConnection(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, pools := withOneConnection(c, wait)
			r, err := redlock.New(nodes)
			require.NoError(t, err)
			warm(t, r)
			synctest.Wait()
			for range 5 {
				report, checkErr := r.Check(t.Context())
				require.NoError(t, checkErr)
				for _, n := range nodes {
					assert.Equal(t, redlock.VerdictUnknown, found(t, report, n.Name, "reachable").Verdict)
				}
				l, lockErr := r.TryLock(t.Context(), []string{"a"}, ttl)
				require.NoError(t, lockErr)
				require.NoError(t, l.Unlock(t.Context()))
			}
			// The answer on the other connection is what tells it from a dead node.
			require.NoError(t, c.Nodes[0].Hang())
			report, err := r.Check(t.Context())
			require.NoError(t, err)
			assert.Equal(t, redlock.VerdictUnfit, found(t, report, nodes[0].Name, "reachable").Verdict)
			require.NoError(t, r.Close(t.Context()))
			synctest.Wait() // The hung one is not waited for.
			for _, p := range pools {
				assert.Zero(t, p.ActiveCount()-p.IdleCount())
				require.NoError(t, p.Close())
			}
		})
	}
}

func TestCheckOfAPoolThatHangs(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		hung := make(chan struct{})
		nodes := nodesOf(c)
		nodes = append(nodes, redlock.Node{Name: "hangs", Pool: poolFunc(func(context.Context) (redis.Conn, error) {
			<-hung
			return nil, errors.New("too late")
		})})
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		start := time.Now()
		report, err := r.Check(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), time.Second)
		assert.Contains(t, found(t, report, "hangs", "reachable").Text, "no connection within")
		assert.Equal(t, redlock.VerdictOK, found(t, report, nodes[0].Name, "reachable").Verdict)
		close(hung)
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestCheckBesideLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					if report, err := r.Check(t.Context()); assert.NoError(t, err) {
						assert.Equal(t, redlock.VerdictUnknown, report.Verdict())
					}
				}
			})
			all.Go(func() {
				for range 5 {
					l, err := r.Lock(t.Context(), []string{"a"}, ttl, redlock.WithRetryCount(-1))
					if assert.NoError(t, err) {
						assert.NoError(t, l.Unlock(t.Context()))
					}
				}
			})
		}
		all.Wait()
		for _, n := range c.Nodes {
			stored, err := n.Keys()
			require.NoError(t, err)
			assert.NotContains(t, stored, redlock.CheckKey(r))
		}
	})
}

// found returns a node's finding of a check.
func found(t *testing.T, r redlock.Report, node, check string) redlock.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f redlock.Finding) bool { return f.Node == node && f.Check == check })
	require.GreaterOrEqual(t, i, 0, "no finding %q of %q in %+v", check, node, r.Findings)
	return r.Findings[i]
}
