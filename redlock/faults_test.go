package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// warm makes all connections, so that a test's times are those of requests.
func warm(t *testing.T, r *Redlock) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
	require.NoError(t, err)
	synctest.Wait()
	require.NoError(t, l.Unlock(t.Context()))
	synctest.Wait()
}

func votesOf(t *testing.T, err error) []Vote {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.Votes
}

func TestAMinorityCostsNothingWhateverItsFault(t *testing.T) {
	faults := map[string]func(n *testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"dead":       (*testcluster.Node).Stop,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
		"mute":       func(n *testcluster.Node) error { n.Proxy().DropReplies(true); return nil },
		"refusing":   func(n *testcluster.Node) error { n.Proxy().Refuse(true); return nil },
		"loading":    func(n *testcluster.Node) error { return n.SetError("LOADING Redis is loading the dataset in memory") },
		"slow":       func(n *testcluster.Node) error { return n.Slow(90*time.Millisecond, 300*time.Millisecond) },
	}
	for name, fault := range faults {
		for _, connected := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
					r := newRedlock(t, c)
					if connected {
						warm(t, r)
					}
					require.NoError(t, fault(c.Nodes[1]))
					require.NoError(t, fault(c.Nodes[4]))
					for range rounds(30, 6) {
						start := time.Now()
						l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
						require.NoError(t, err)
						require.NoError(t, l.Extend(t.Context(), 2*ttl))
						require.NoError(t, l.Unlock(t.Context()))
						require.Zero(t, time.Since(start), "fake time: the healthy nodes need none")
						time.Sleep(77 * time.Millisecond)
					}
				})
			})
		}
	}
}

func TestSilentMajorityIsNoQuorumWithinTheNodeTimeout(t *testing.T) {
	for _, connected := range []bool{true, false} {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			if connected {
				warm(t, r)
			}
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Hang())
			}
			for i := range 20 {
				start := time.Now()
				_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
				require.ErrorIs(t, err, ErrNoQuorum)
				require.NotErrorIs(t, err, ErrTaken)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				limit := DefaultNodeTimeout
				if i == 0 && !connected { // It is not known yet that they hang.
					limit += DefaultConnectTimeout
				}
				require.LessOrEqual(t, time.Since(start), limit)
				votes := votesOf(t, err)
				require.Len(t, votes, 5)
				for i, v := range votes {
					assert.Equal(t, c.Nodes[i].Name(), v.Node)
					if i < 3 {
						require.Error(t, v.Err)
					} else if v.Err != nil {
						require.ErrorIs(t, v.Err, ErrPending)
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Resume())
			}
			time.Sleep(3 * time.Second)
			requireNoKeys(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, 5, holders(t, c, l), "all nodes are back")
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestTakenAndUnreachableAreToldApart(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		// Two nodes down and another's key on the others: silence alone does not
		// prevent a quorum, the holder does.
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Hang())
		for _, n := range c.Nodes[2:] {
			require.NoError(t, n.Set("a", "somebody", ttl))
		}
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		require.NotErrorIs(t, err, ErrNoQuorum)
		votes := votesOf(t, err)
		assert.Equal(t, tokens.Digest("somebody"), votes[2].Holder)
		assert.InDelta(t, ttl, votes[2].HolderTTL, float64(time.Millisecond))
		require.Error(t, votes[0].Err)
		require.Error(t, votes[1].Err)

		require.NoError(t, c.Nodes[1].Stop())
		require.NoError(t, c.Nodes[2].Stop())
		time.Sleep(2 * time.Second) // The hung connection has been given up.
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrTaken)
	})
}

func TestAYesThatComesLateIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(150*time.Millisecond, 200*time.Millisecond))
		}
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		for _, v := range votesOf(t, err) {
			require.ErrorIs(t, v.Err, ErrNodeTimeout)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		requireNoKeys(t, c)
	})
}

func TestACancelledAttemptLeavesNothing(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 60 * time.Millisecond} {
		inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			for _, n := range c.Nodes[:3] {
				require.NoError(t, n.Slow(20*time.Millisecond, 30*time.Millisecond))
			}
			ctx, cancel := context.WithTimeout(t.Context(), delay)
			defer cancel()
			l, err := r.TryLock(ctx, []string{"a"}, time.Minute)
			if delay < 50*time.Millisecond {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				requireNoKeys(t, c)
				return
			}
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
		})
	}
}

func TestUnlockIgnoresACancelledContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		l, err := r.TryLock(ctx, []string{"a"}, ttl)
		require.NoError(t, err)
		cancel()
		require.NoError(t, l.Unlock(ctx))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

func TestUnlockOfAStolenLock(t *testing.T) {
	for stolen := range 6 {
		for _, expired := range []bool{false, true} {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl)
				require.NoError(t, err)
				synctest.Wait()
				if expired {
					time.Sleep(time.Until(l.Until()))
				}
				for _, n := range c.Nodes[:stolen] {
					require.NoError(t, n.Set("b", "thief", ttl))
				}
				err = l.Unlock(t.Context())
				switch {
				case expired:
					require.ErrorIs(t, err, ErrExpired)
				case stolen <= 2:
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, ErrLost)
					require.NotErrorIs(t, err, ErrExpired)
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
				require.ErrorIs(t, l.Unlock(t.Context()), ErrNoQuorum)
				require.ErrorIs(t, l.Err(), ErrLost)
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

func TestExtendOfALockThatAQuorumDoesNotKnow(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		until := l.Until()
		for _, n := range c.Nodes[:3] {
			require.NoError(t, l.Err())
			require.NoError(t, n.Del("a"))
		}
		require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrLost)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.NotErrorIs(t, l.Err(), ErrExpired)
		assert.Equal(t, until, l.Until())
		require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrLost)
		synctest.Wait()
		for _, n := range c.Nodes[:3] {
			require.Empty(t, keys(t, n), "an extension creates nothing")
		}
		for _, n := range c.Nodes[3:] {
			require.NotEmpty(t, keys(t, n), "an extension deletes nothing")
		}
	})
}

func TestExtendWithoutQuorumLeavesTheLockHeld(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		until := l.Until()
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Hang())
		}
		err = l.Extend(t.Context(), ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrLost)
		require.NoError(t, l.Err())
		assert.Equal(t, until, l.Until())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err = l.Extend(ctx, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Err())
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Resume())
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestAnExtensionInFlightCannotReviveAReleasedLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		until := l.Until()
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(10*time.Millisecond, 10*time.Millisecond))
		}
		extended := make(chan error)
		go func() { extended <- l.Extend(context.Background(), 2*ttl) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, <-extended, ErrLost)
		assert.Equal(t, until, l.Until())
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

func TestAQuorumAfterUntilIsNone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(30*time.Millisecond, 30*time.Millisecond))
		}
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, 40*time.Millisecond)
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.Less(t, time.Since(start), 40*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)

		l, err := r.TryLock(t.Context(), []string{"a"}, 100*time.Millisecond)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()) - 30*time.Millisecond)
		err = l.Extend(t.Context(), ttl) // Answered after the old Until.
		require.ErrorIs(t, err, ErrExpired)
		require.ErrorIs(t, l.Err(), ErrExpired)
		_ = l.Unlock(t.Context())
	})
}

func TestWallClockAheadOfTheMonotonicOneEndsTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		WallOffset(r).Store(int64(time.Minute)) // The machine slept.
		require.ErrorIs(t, l.Err(), ErrExpired)
		WallOffset(r).Store(0) // Lost is terminal.
		require.ErrorIs(t, l.Err(), ErrExpired)
		require.ErrorIs(t, l.Extend(t.Context(), ttl), ErrExpired)
	})
}

func TestScriptFlushAtAnyMoment(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		flush := func() {
			for _, n := range c.Nodes {
				require.NoError(t, n.FlushScripts())
			}
		}
		r := newRedlock(t, c)
		warm(t, r)
		flush()
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		flush()
		require.NoError(t, l.Extend(t.Context(), ttl))
		flush()
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		requireNoKeys(t, c)
		flush()
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		for _, n := range in.Nodes {
			require.NoError(t, n.Err)
		}
	})
}

// A lock that is answered NOSCRIPT and sent again after its release would leave
// an orphan.
func TestScriptFlushDuringACancelledAttemptLeavesNothing(t *testing.T) {
	for ms := range 12 {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			for _, n := range c.Nodes {
				require.NoError(t, n.FlushScripts())
				require.NoError(t, n.Slow(2*time.Millisecond, 3*time.Millisecond))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"a"}, time.Minute)
			if ms < 8 {
				require.Error(t, err)
			}
			if err != nil {
				time.Sleep(time.Second)
				requireNoKeys(t, c)
			}
		})
	}
}

func TestAReleaseThatIsAnsweredWithAnErrorIsSentAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("BUSY Redis is busy running a script."))
		}
		err = l.Unlock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.Contains(t, err.Error(), "BUSY")
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError(""))
		}
		time.Sleep(2 * time.Second)
		requireNoKeys(t, c)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestAKeyOfAnotherTypeIsNotOverwritten(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			_, err = conn.Do("HSET", "h", "f", "v")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		for _, resources := range [][]string{{"h"}, {"a", "h"}} {
			_, err := r.TryLock(t.Context(), resources, ttl)
			require.ErrorIs(t, err, ErrNoQuorum)
			assert.Contains(t, err.Error(), "WRONGTYPE")
		}
		synctest.Wait()
		for _, n := range c.Nodes {
			require.NotContains(t, keys(t, n), "a")
		}
	})
}

func TestAForeignKeyWithoutExpiry(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for _, n := range c.Nodes {
			require.NoError(t, n.Set("a", "for ever", 0))
		}
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		for _, v := range votesOf(t, err) {
			if errors.Is(v.Err, ErrTaken) {
				assert.Negative(t, v.HolderTTL)
			}
		}
		assert.Contains(t, err.Error(), "without expiry")
	})
}

func TestNoWinnerOnASplitThatStaysEndsInTime(t *testing.T) {
	for _, n := range []int{2, 4} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			for _, node := range c.Nodes[:n/2] {
				require.NoError(t, node.Set("a", "somebody who stays", time.Minute))
			}
			start := time.Now()
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, ErrTaken)
			assert.LessOrEqual(t, time.Since(start), 2*DefaultNodeTimeout)
			time.Sleep(time.Second)
			for _, node := range c.Nodes[n/2:] {
				require.Empty(t, keys(t, node))
			}
		})
	}
}

func TestErrorsOfNodesAreNotInTheChain(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		vote := votesOf(t, err)[0]
		require.Error(t, vote.Err)
		require.NotErrorIs(t, err, vote.Err)
	})
}
