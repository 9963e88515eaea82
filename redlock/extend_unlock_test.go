package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestExtendMovesUntilAndTheKeys(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a", "b"}, ttl)
		time.Sleep(ttl / 2)
		before := l.Until()
		require.NoError(t, l.Extend(t.Context(), time.Second), "a shorter ttl")
		assert.Equal(t, before, l.Until(), "never shortens")
		require.NoError(t, l.Extend(t.Context(), ttl*3/4))
		assert.Equal(t, time.Now().Add(testkit.Validity(ttl*3/4)), l.Until(), "a shorter ttl counts if it ends later")
		require.NoError(t, l.Extend(t.Context(), ttl))
		synctest.Wait()
		assert.Equal(t, time.Now().Add(testkit.Validity(ttl)), l.Until())
		for _, n := range c.Nodes {
			for key, state := range keys(t, n) {
				assert.Equal(t, ttl, state.TTL, "%s on %s", key, n.Name())
			}
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.NotErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrExpired)
	})
}

// As for a lock: it counts from its start, and what the machine slept while the nodes were asked comes off.
func TestExtendCountsASleepWithinItsRound(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, ttl)
		time.Sleep(ttl / 10)
		requireSleepCounts(t, c, r, func() (*redlock.Lock, error) { return l, l.Extend(t.Context(), ttl) })
	})
}

func TestExtendOfALockThatAQuorumDoesNotKnow(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, ttl)
		until := l.Until()
		for _, n := range c.Nodes[:3] {
			require.NoError(t, l.Err())
			require.NoError(t, n.Del("a"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		require.NotErrorIs(t, l.Err(), redlock.ErrExpired)
		assert.Equal(t, until, l.Until())
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		synctest.Wait()
		for _, n := range c.Nodes[:3] {
			require.Empty(t, keys(t, n), "an extension creates nothing")
		}
		for _, n := range c.Nodes[3:] {
			require.NotEmpty(t, keys(t, n), "an extension deletes nothing")
		}

		// Nor does one that nobody can tell anything of repair a node.
		l = lockOnAll(t, r, []string{"b"}, ttl)
		require.NoError(t, c.Nodes[0].Del("b"))
		for _, n := range c.Nodes[1:4] {
			require.NoError(t, n.SetError("ERR out of order"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
		synctest.Wait()
		require.NotContains(t, keys(t, c.Nodes[0]), "b")
		require.NoError(t, c.SetError(""))
	})
}

func TestRepairOfNodesThatLostTheKey(t *testing.T) {
	withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Nodes[4].Stop())
		l := tryLock(t, r, []string{"a", "b"}, 10*time.Second)
		require.NoError(t, c.Nodes[4].Restart(true))
		ctx := l.KeepAlive(t.Context())
		time.Sleep(5 * time.Second)
		require.Equal(t, 5, holders(t, c, l))
		assert.Zero(t, r.Stats().Repaired, "a node that was away has lost nothing")
		// One node after the other loses its data: more than a quorum in all.
		for i, n := range c.Nodes {
			require.NoError(t, n.Stop())
			require.NoError(t, n.Restart(false))
			if i%2 == 0 { // A part of it only.
				require.NoError(t, n.Set("a", l.Token(), time.Minute))
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, 5, holders(t, c, l))
			require.NoError(t, ctx.Err())
		}
		assert.GreaterOrEqual(t, r.Stats().Repaired, int64(5))
		// What is another's is left alone.
		require.NoError(t, c.First(2).Set("b", "x", time.Hour))
		time.Sleep(10 * time.Second)
		assert.Equal(t, "x", keys(t, c.Nodes[0])["b"].Value)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A node that has lost the keys is being connected to when the last vote comes, and is there again when the lock is over.
func TestRepairOfALapsedLockIsNotMadeByALateConnection(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		const ttl = 300 * time.Millisecond
		l := lockOnAll(t, r, []string{"a"}, ttl)
		require.NoError(t, c.Nodes[2].Del("a"))
		c.Nodes[1].Proxy().SetDelays(0, 0, 90*time.Millisecond, 90*time.Millisecond)
		done := meanwhile(func() error { return l.Extend(t.Context(), ttl) })
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, c.Nodes[2].Hang())
		c.Nodes[2].Proxy().Kill()
		require.NoError(t, <-done)
		time.Sleep(ttl + 50*time.Millisecond)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		require.NoError(t, c.Nodes[2].Resume())
		time.Sleep(100 * time.Millisecond)
		assert.Empty(t, keys(t, c.Nodes[2]))
	})
}

func TestUnlockOfAStolenLock(t *testing.T) {
	for _, stolen := range []int{2, 3, 5} {
		for _, expired := range []bool{false, true} {
			withRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
				l := lockOnAll(t, r, []string{"a", "b"}, ttl)
				if expired {
					time.Sleep(time.Until(l.Until()))
				}
				require.NoError(t, c.First(stolen).Set("b", "thief", ttl))
				err := l.Unlock(t.Context())
				switch {
				case expired:
					require.ErrorIs(t, err, redlock.ErrExpired)
				case stolen <= 2:
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, redlock.ErrLost)
					require.NotErrorIs(t, err, redlock.ErrExpired)
				}
				require.Equal(t, err, l.Unlock(t.Context()), "repeated")
				synctest.Wait()
				for _, n := range c.Nodes {
					require.NotContains(t, keys(t, n), "a")
				}
				for _, n := range c.Nodes[:stolen] {
					require.Equal(t, "thief", keys(t, n)["b"].Value)
				}
			})
		}
	}
}

func TestUnlocksAtTheSameTimeAreOne(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, time.Minute)
		require.NoError(t, c.Hang())
		start := time.Now()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.ErrorIs(t, l.Unlock(context.Background()), redlock.ErrNoQuorum) })
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
	})
}

// What has gone wrong twice, a release that failed, and the next one without an answer, is still no loss.
func TestUnlockThatIsRepeatedAfterAReleaseWithoutAnswerIsNoLoss(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newRedlock(t, c)
		l := tryLock(t, r, []string{"a"}, time.Minute)
		time.Sleep(2 * time.Second)
		require.NoError(t, n.Stop())
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			if cmd == "EVALSHA" { // The release: its answer will not arrive.
				n.Proxy().DropReplies(true)
			}
		}))
		require.NoError(t, n.Restart(true))
		time.Sleep(5 * time.Second)
		requireNoKeys(t, c)
		require.NoError(t, n.OnCommand(nil))
		n.Proxy().DropReplies(false)
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Something on the way to a node may answer a release with an error though it was carried out.
func TestUnlockThatIsRepeatedAfterAnErrorOfUnknownOriginIsNoLoss(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		pause  time.Duration // before Unlock is called again
		want   error
	}{
		"at once":                       {answer: "ERR upstream request timeout"},
		"when it was sent again":        {answer: "ERR upstream request timeout", pause: time.Second},
		"a refusal of the server's own": {answer: "BUSY x", want: redlock.ErrLost},
		"refused, and sent again":       {answer: "MISCONF x", pause: time.Second, want: redlock.ErrLost},
	} {
		byScript := name == "at once" // And others by a command of the server's own.
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			for _, n := range c.Nodes {
				require.NoError(t, n.SetOld(byScript))
			}
			l := lockOnAll(t, r, []string{"a"}, time.Minute)
			for _, n := range c.Nodes {
				var once sync.Once
				require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
					if cmd == "EVALSHA" || cmd == "DELEX" {
						once.Do(func() {
							assert.NoError(t, n.Del("a")) // As the release does; or somebody else, where the server has refused it.
							assert.NoError(t, n.SetError(test.answer))
						})
					}
				}))
			}
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
			require.NoError(t, c.SetError(""))
			time.Sleep(test.pause)
			require.ErrorIs(t, l.Unlock(t.Context()), test.want)
		})
	}
}

// A lock request that the server has refused has left nothing, so that there is
// nothing to release, to repeat, or to owe.
func TestUnlockHasNothingToDoAfterARefusal(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.SetError("MISCONF x"))
		for range 100 {
			refused(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Hour)
		}
		synctest.Wait()
		var commands atomic.Int64 // but those by which a node that refuses writes is tried
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(_ string, args []string) {
				if len(args) < 3 || !strings.Contains(args[2], "__redlock__:none:") {
					commands.Add(1)
				}
			}))
		}
		time.Sleep(10 * time.Second)
		assert.Zero(t, commands.Load())

		// Behind another error, such as a proxy's, it may have been carried out.
		require.NoError(t, c.SetError("ERR upstream timeout"))
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Hour)
		synctest.Wait()
		var pending int
		for _, n := range r.Stats().Nodes {
			pending += n.PendingReleases
		}
		assert.GreaterOrEqual(t, pending, 2, "of the third, the call may have had no need")
	})
}

// A semaphore gives back so what it has won in surplus.
func TestUnlockOfWhatWasNotUsedLeavesNoMinHold(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		lock := func() *redlock.Lock {
			l := tryLock(t, r, []string{"a"}, time.Minute, redlock.WithMinHold(time.Minute))
			settings.Unused(l)
			return l
		}
		require.NoError(t, lock().Unlock(t.Context()))
		requireReleased(t, c)

		require.ErrorIs(t, lock().Do(cancelled(t), func(context.Context, *redlock.Lock) error { return nil }), redlock.ErrNotAcquired)
		requireReleased(t, c)
		require.NoError(t, lock().Do(t.Context(), func(context.Context, *redlock.Lock) error { return nil }))
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute) // The function was called.
	})
}

func TestUnlockCleansUpUnknownOutcomesBeforeAnythingElse(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newWarm(t, c, redlock.WithHook(rec.Hook))
		time.Sleep(2 * time.Second)
		// The lock is granted, nobody hears of it, and the connection breaks.
		proxy := c.Nodes[0].Proxy()
		proxy.DropReplies(true)
		_, err := r.TryLock(within(t, time.Millisecond), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		proxy.DropReplies(false)
		var commands []string
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, args []string) { commands = append(commands, cmd) }))
		proxy.Reset()
		synctest.Wait()
		requireNoKeys(t, c)
		cleaned := rec.TakeOf(redlock.EventNodeCleaned)
		require.Len(t, cleaned, 1)
		assert.Equal(t, []int{1, 1}, []int{cleaned[0].Unknown, cleaned[0].Cleaned})
		// The scripts, then the release, and no other request.
		asked := strings.Join(commands, " ")
		assert.Regexp(t, "SCRIPT .* EVALSHA$", asked)
		assert.Equal(t, 1, strings.Count(asked, "EVAL"))
		s := r.Stats().Nodes[0]
		assert.Equal(t, []int64{1, 1}, []int64{s.Unknown, s.Cleaned})
		assert.Zero(t, s.PendingReleases)
	})
}

// "Expired" and "somebody else has it" are two things to whoever asks what has happened.
func TestUnlockNamesWhoHasTheLockNow(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		other := newRedlock(t, c, redlock.WithOwner("the other"))
		for _, resources := range [][]string{{"a"}, {"a", "b"}} {
			l := lockOnAll(t, r, resources, ttl)
			require.NoError(t, c.Del("a"))
			rival := tryLock(t, other, []string{"a"}, time.Minute)
			synctest.Wait()
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrLost)
			for _, v := range votesOf(t, err) {
				if errors.Is(v.Err, redlock.ErrPending) {
					continue
				}
				require.ErrorIs(t, v.Err, redlock.ErrLost)
				assert.Equal(t, rival.Holder(), v.Holder)
				assert.Equal(t, "the other", v.Owner)
				assert.InDelta(t, time.Minute, v.HolderTTL, float64(time.Second))
			}
			require.ErrorContains(t, err, `: held by "the other" (`+rival.Holder()+`) for `)
			require.ErrorIs(t, r.Release(t.Context(), resources, l.Token()), redlock.ErrLost)
			require.NoError(t, rival.Unlock(t.Context()), "it was left alone")
			requireReleased(t, c)
		}
	})
}
