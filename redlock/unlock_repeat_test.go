package redlock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestUnlockThatIsRepeatedIsNotTakenForALoss(t *testing.T) {
	t.Run("the first release is still on its way", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, c.Hang())
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
			time.AfterFunc(20*time.Millisecond, func() {
				for _, n := range c.Nodes {
					assert.NoError(t, n.Resume())
				}
			})
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait() // Unlock returns at the decision: the third node may answer later.
			requireNoKeys(t, c)
		})
	})
	t.Run("the first release was pending", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			time.Sleep(2 * time.Second) // A connection that did not last is not made again at once.
			require.NoError(t, c.Hang())
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
			for _, n := range c.Nodes {
				n.Proxy().Kill()
				require.NoError(t, n.Resume())
				require.NoError(t, n.Slow(5*time.Millisecond, 5*time.Millisecond))
			}
			synctest.Wait() // They are connecting.
			require.NoError(t, l.Unlock(t.Context()))
		})
	})
	t.Run("the answers to the first release were lost", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			for _, n := range c.Nodes {
				n.Proxy().DropReplies(true)
			}
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
			requireNoKeys(t, c)
			for _, n := range c.Nodes {
				n.Proxy().DropReplies(false)
				n.Proxy().Reset()
			}
			synctest.Wait() // Or this one may be written before they notice.
			require.NoError(t, l.Unlock(t.Context()))
		})
	})
}

// What has gone wrong twice, a release that failed, and the next one without an answer, is still no loss.
func TestUnlockThatIsRepeatedAfterAReleaseWithoutAnswerIsNoLoss(t *testing.T) {
	for name, fault := range map[string]struct {
		begin, end func(n *testcluster.Node) error
	}{
		"owed":    {(*testcluster.Node).Stop, func(n *testcluster.Node) error { return n.Restart(true) }},
		"refused": {func(n *testcluster.Node) error { return n.SetError("BUSY x") }, func(n *testcluster.Node) error { return n.SetError("") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				n := c.Nodes[0]
				r := newRedlock(t, c)
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				require.NoError(t, fault.begin(n))
				require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
				var once sync.Once
				require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
					if cmd == "EVALSHA" { // The release: its answer will not arrive.
						once.Do(func() { n.Proxy().DropReplies(true) })
					}
				}))
				require.NoError(t, fault.end(n))
				time.Sleep(5 * time.Second)
				requireNoKeys(t, c)
				n.Proxy().DropReplies(false)
				time.Sleep(5 * time.Second)
				require.NoError(t, l.Unlock(t.Context()))
			})
		})
	}
}

func TestUnlockThatIsRepeatedStillShowsALoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		for _, n := range c.Nodes {
			require.NoError(t, n.Stop())
			require.NoError(t, n.Set("a", "thief", time.Hour))
		}
		time.Sleep(time.Second)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.NoError(t, c.Restart(true))
		time.Sleep(5 * time.Second) // The releases that were owed have found nothing of this lock's.
		err = l.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrExpired)
		for _, n := range c.Nodes {
			require.Equal(t, "thief", keys(t, n)["a"].Value)
		}
	})
}

func TestUnlockThatIsRepeatedAfterUntilSaysExpired(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 3*time.Second)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.SetError("BUSY x"))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(10 * time.Second)
		require.NoError(t, c.SetError(""))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
	})
}

func TestUnlockThatIsRefusedIsRepeatedBeforeCloseEnds(t *testing.T) {
	for name, refusing := range map[string]time.Duration{"accepted at once": 0, "accepted a bit later": redlock.DefaultNodeTimeout / 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, c.SetError("BUSY x"))
				require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
				time.AfterFunc(refusing, func() {
					for _, n := range c.Nodes {
						assert.NoError(t, n.SetError(""))
					}
				})
				start := time.Now()
				if refusing == 0 {
					synctest.Wait()
				}
				require.NoError(t, r.Close(t.Context()))
				assert.Less(t, time.Since(start), redlock.DefaultNodeTimeout)
				requireNoKeys(t, c)
			})
		})
	}
}

func TestUnlockWithoutQuorumMayBeRepeated(t *testing.T) {
	for name, back := range map[string]time.Duration{"soon": 50 * time.Millisecond, "after a reconnect": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
				require.NoError(t, err)
				synctest.Wait()
				for _, n := range c.Nodes[:3] {
					require.NoError(t, n.Hang())
				}
				require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
				require.ErrorIs(t, l.Err(), redlock.ErrLost)
				time.Sleep(back)
				for _, n := range c.Nodes[:3] {
					require.NoError(t, n.Resume())
				}
				time.Sleep(3 * time.Second)
				requireNoKeys(t, c) // Told in the background.
				require.NoError(t, l.Unlock(t.Context()))
			})
		})
	}
}

func TestUnlockThatIsAnsweredWithAnErrorIsSentAgain(t *testing.T) {
	for _, refused := range []time.Duration{0, 1600 * time.Millisecond} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, 3900*time.Millisecond)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, c.SetError("BUSY Redis is busy running a script."))
			err = l.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Contains(t, err.Error(), "BUSY")
			time.Sleep(refused)
			require.NoError(t, c.SetError(""))
			time.Sleep(1500 * time.Millisecond)
			requireNoKeys(t, c)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}
