package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestLockIsHeldByEveryNodeUntilUnlock(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		withRedlock(t, n, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			start := time.Now()
			l := tryLock(t, r, []string{"b", "a", "b"}, ttl)
			synctest.Wait() // The nodes beyond the quorum.
			assert.Equal(t, []string{"a", "b"}, l.Resources())
			assert.Len(t, l.Token(), 32)
			assert.Equal(t, 1, l.Attempts())
			assert.Equal(t, start.Add(ttl-102*time.Millisecond), l.Until())
			require.NoError(t, l.Err())
			assert.Equal(t, n, holders(t, c, l))
			assert.Equal(t, 1, r.Stats().Held)

			err := refusal(t, redlock.ErrTaken, r, []string{"b"}, ttl)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Len(t, votesOf(t, err), n)
			require.NoError(t, l.Unlock(cancelled(t)), "it does not matter")
			require.ErrorIs(t, l.Err(), redlock.ErrLost)
			require.NoError(t, l.Unlock(t.Context()), "repeated")
			synctest.Wait()
			requireNoKeys(t, c)
			assert.Equal(t, 0, r.Stats().Held)
		})
	}
}

// A lock counts from its start: what an answer takes is none of the validity. What the machine slept while the nodes
// were asked comes off, too: for them it is over.
func TestLockCountsASleepWithinItsRound(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"": nil, "with a fence": {redlock.WithFencing()}} {
		runWithWarm(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			requireSleepCounts(t, c, r, func() (*redlock.Lock, error) { return r.TryLock(t.Context(), []string{"a"}, ttl, opts...) })
		})
	}
}

// requireSleepCounts checks that a lock ends the earlier by what the machine has slept while it was got, or extended,
// by an operation that takes a round trip.
func requireSleepCounts(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, operation func() (*redlock.Lock, error)) {
	t.Helper()
	const slept = 4 * time.Second
	require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
	time.AfterFunc(5*time.Millisecond, func() { testkit.WallOffset(r).Add(int64(slept)) })
	start := time.Now()
	l, err := operation()
	require.NoError(t, err)
	require.NoError(t, c.Slow(0, 0))
	assert.Equal(t, start.Add(testkit.Validity(ttl)), l.Until())
	time.Sleep(time.Until(l.Until().Add(-slept - 1)))
	require.NoError(t, l.Err())
	time.Sleep(time.Nanosecond)
	require.ErrorIs(t, l.Err(), redlock.ErrExpired)
}

func TestLockGetsNothingFromAQuorumAfterUntil(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Slow(30*time.Millisecond, 30*time.Millisecond))
		start := time.Now()
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, 40*time.Millisecond)
		assert.Less(t, time.Since(start), 40*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)

		l := tryLock(t, r, []string{"a"}, 100*time.Millisecond)
		time.Sleep(time.Until(l.Until()) - 30*time.Millisecond)
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrExpired, "answered after the old Until")
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
	})
}

// commandsOf collects the names of a node's commands from now on, of EVALSHA and EVAL the script's.
func commandsOf(t *testing.T, n *testcluster.Node) (take func() string) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	require.NoError(t, n.OnCommand(func(cmd string, args []string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(cmd, "EVAL") {
			for _, s := range redlock.Scripts() {
				if args[0] == s.Hash || args[0] == s.Source {
					cmd = s.Name
				}
			}
		}
		names = append(names, cmd)
	}))
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(names, " ")
		names = nil
		return all
	}
}

func TestLockOnOneResourceTakesNoScript(t *testing.T) {
	for name, c := range map[string]struct {
		resources []string
		opts      []redlock.Option
		want      string
	}{
		"one resource": {[]string{"a"}, nil, "SET PTTL DELEX PTTL"},
		"two":          {[]string{"a", "b"}, nil, "lock unlock"},
		"fencing":      {[]string{"a"}, []redlock.Option{redlock.WithFencing()}, "fencedLock DELEX PTTL"},
	} {
		runInBubble(t, name, 3, func(t *testing.T, cl *testcluster.Cluster) {
			r := newWarm(t, cl, c.opts...)
			take := commandsOf(t, cl.Nodes[0])
			l := lockOnAll(t, r, c.resources, ttl)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			assert.Equal(t, c.want, take())
		})
	}
}

// A refusal says as much as that of the script: who, with which label, and for how long.
func TestLockWithoutAScriptIsRefusedAsWithIt(t *testing.T) {
	for _, old := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			for _, n := range c.Nodes {
				require.NoError(t, n.SetOld(old))
			}
			r, other := newRedlock(t, c, redlock.WithOwner("api-1")), newRedlock(t, c)
			l := lockOnAll(t, r, []string{"a"}, time.Minute)
			time.Sleep(10 * time.Second)
			refusals := 0
			for _, v := range votesOf(t, refusal(t, redlock.ErrTaken, other, []string{"a"}, time.Minute)) {
				if errors.Is(v.Err, redlock.ErrTaken) {
					refusals++
					assert.Equal(t, "api-1", v.Owner)
					assert.Equal(t, tokens.Digest(l.Token()), v.Holder)
					assert.Equal(t, 50*time.Second, v.HolderTTL)
				}
			}
			assert.GreaterOrEqual(t, refusals, 2)
			require.NoError(t, c.Set("b", "somebody's", 0))
			require.ErrorContains(t, refusal(t, redlock.ErrTaken, other, []string{"b"}, ttl), "without expiry")
		})
	}
}

// A server before Redis 7.0 refuses NX with GET. Its connection goes on with the script; the next one asks again, as
// the server may be a newer one by then.
func TestLockOnAnOldServerFallsBackToTheScript(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		require.NoError(t, n.SetOld(true))
		r := newWarm(t, c)
		take := commandsOf(t, n)
		cycle(t, r, "a", ttl)
		synctest.Wait()
		assert.Equal(t, "lock unlock", take())
		require.NoError(t, n.SetOld(false))
		n.Proxy().Reset()
		time.Sleep(time.Second)
		take()
		cycle(t, r, "a", ttl)
		synctest.Wait()
		assert.Equal(t, "SET PTTL DELEX PTTL", take())
	})
}

// Refused for its form, and given up meanwhile: sent again behind its release, it would leave a key.
func TestLockOnAnOldServerIsNotSentAgainBehindItsRelease(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		require.NoError(t, n.SetOld(true))
		r := newRedlock(t, c)
		_, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, n.Slow(5*time.Millisecond, 5*time.Millisecond))
		_, err = r.TryLock(within(t, 7*time.Millisecond), []string{"a"}, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// A connection that ends between the two replies leaves the outcome unknown, as if there were none.
func TestLockWhoseSecondReplyIsLostLeavesNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newWarm(t, c)
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			if cmd == "PTTL" {
				synctest.Wait() // By now the client has the reply to SET.
				n.Proxy().Reset()
			}
		}))
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Hour)
		require.NoError(t, n.OnCommand(nil))
		time.Sleep(5 * time.Second)
		requireNoKeys(t, c)
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Unknown)
	})
}

// many returns n resources with names of the given length.
func many(n, length int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = strings.Repeat("x", max(0, length-6)) + fmt.Sprintf("%0*d", min(length, 6), i)
	}
	return s
}

// The server's own SET answers the whole value of a key, where the script answers a digest. So a node is asked in that
// way no more once a key has held something large of another program's.
func TestLockOnAKeyWithALongValueIsAskedForByTheScript(t *testing.T) {
	withRedlock(t, 1, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Nodes[0].Set("a", strings.Repeat("x", 2<<20), 0))
		refused(t, redlock.ErrTaken, r, []string{"a"}, ttl)
		sets := countCommands(t, "SET", c.Nodes[0])
		refused(t, redlock.ErrTaken, r, []string{"a"}, ttl)
		assert.Zero(t, sets.Load())
	})
}

func TestLockResourcesAreBounded(t *testing.T) {
	testkit.SkipUnderRace(t, "it is about sizes")
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		for want, resources := range map[string][]string{
			"redlock: 4097 resources: at most 4096 can be locked together":                      many(redlock.MaxResources+1, 4),
			"redlock: the keys of 4096 resources have 528384 bytes: at most 524288 are allowed": many(redlock.MaxResources, 127),
			"redlock: the keys of 1 resource have 524289 bytes: at most 524288 are allowed":     many(1, redlock.MaxKeyBytes-1),
		} {
			_, err := r.TryLock(t.Context(), resources, ttl)
			require.EqualError(t, err, want)
		}
		assert.Zero(t, r.Stats().Nodes[0].Connects, "before any I/O")
		tryLock(t, r, slices.Repeat(many(redlock.MaxResources, 8), 2), ttl, redlock.WithNodeTimeout(time.Minute)) // Each counts once.
	})
}

// The largest locks, with somebody in line for every resource of theirs: no answer of a
// node and no message is too long for the connections.
func TestLockOfTheLargestSizeGetsNoReplyThatIsTooLong(t *testing.T) {
	testkit.SkipUnderRace(t, "it is about sizes")
	for _, resources := range [][]string{many(redlock.MaxResources, rounds(126, 8)), many(1, redlock.MaxKeyBytes-2)} {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			opts := []redlock.Option{redlock.WithFencing(), redlock.WithPrefix("p:"), redlock.WithNodeTimeout(10 * time.Second)}
			holder, waiter := newRedlock(t, c, opts...), newRedlock(t, c, opts...)
			l := tryLock(t, holder, resources, time.Hour)
			w := underWay(t, waiter, resources, time.Hour, redlock.WithRetryDelay(time.Minute))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			before := connects(holder) + connects(waiter)
			w.takesOver(t, l, 10*time.Second) // It was told.
			assert.Equal(t, before, connects(holder)+connects(waiter), "no connection broke")
		})
	}
}

func TestLockWithAFaultyMinorityCostsNothing(t *testing.T) {
	faults := map[string]func(n *testcluster.Node) error{
		"hung":    (*testcluster.Node).Hang,
		"dead":    (*testcluster.Node).Stop,
		"loading": func(n *testcluster.Node) error { return n.SetError("LOADING Redis is loading the dataset in memory") },
		"slow":    func(n *testcluster.Node) error { return n.Slow(90*time.Millisecond, 300*time.Millisecond) },
	}
	for name, fault := range faults {
		for _, connected := range []bool{true, false} {
			runWithRedlock(t, name, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
				if connected {
					warm(t, r)
				}
				require.NoError(t, fault(c.Nodes[1]))
				require.NoError(t, fault(c.Nodes[4]))
				for range 3 {
					start := time.Now()
					l := tryLock(t, r, []string{"a"}, ttl)
					require.NoError(t, l.Extend(t.Context(), 2*ttl))
					require.NoError(t, l.Unlock(t.Context()))
					require.Zero(t, time.Since(start), "fake time: the healthy nodes need none")
					time.Sleep(77 * time.Millisecond)
				}
			})
		}
	}
}

func TestLockTellsTakenFromUnreachable(t *testing.T) {
	withWarm(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		// Two nodes down and another's key on the others: silence alone does not
		// prevent a quorum, the holder does.
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Hang())
		for _, n := range c.Nodes[2:] {
			require.NoError(t, n.Set("a", "somebody", ttl))
		}
		err := refusal(t, redlock.ErrTaken, r, []string{"a"}, ttl)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, votesOf(t, err)[0].Err, redlock.ErrTaken)
	})
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) { // Cut short, one refusal is a sign of it.
		require.NoError(t, c.Hang())
		require.NoError(t, c.Nodes[0].Resume())
		require.NoError(t, c.Nodes[0].Set("a", "somebody", ttl))
		_, err := r.TryLock(within(t, 10*time.Millisecond), []string{"a"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestLockThatIsNotGotLeavesNothing(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 60 * time.Millisecond} {
		withWarm(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			require.NoError(t, c.First(3).Slow(20*time.Millisecond, 30*time.Millisecond))
			ctx := within(t, delay)
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
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Slow(150*time.Millisecond, 200*time.Millisecond))
		refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl)
		time.Sleep(time.Second) // Each yes has come late.
		requireNoKeys(t, c)
	})
}

// Whatever a server is asked when it has forgotten the scripts is sent again.
func TestScriptFlushAtAnyMoment(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		var l *redlock.Lock
		for _, ask := range []func() error{
			func() (err error) { l, err = r.TryLock(t.Context(), []string{"a", "b"}, ttl); return err },
			func() error { return l.Extend(t.Context(), ttl) },
			func() error {
				in, err := r.Inspect(t.Context(), "a")
				assert.True(t, in.Held)
				return err
			},
			func() error { return l.Unlock(t.Context()) },
		} {
			require.NoError(t, c.FlushScripts())
			require.NoError(t, ask())
		}
	})
}

// A lock that is answered NOSCRIPT and sent again after its release would leave
// an orphan: also where another client has brought back the scripts of a release.
func TestScriptFlushDuringACancelledAttemptLeavesNothing(t *testing.T) {
	for i := 0; i < 24; i += rounds(1, 3) {
		ms, releases := i/2, i%2 == 1
		withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			for _, n := range c.Nodes {
				require.NoError(t, n.FlushScripts())
				if releases {
					do(t, n, "SCRIPT", "LOAD", redlock.UnlockScript.Source)
				}
				require.NoError(t, n.Slow(2*time.Millisecond, 3*time.Millisecond))
			}
			ctx := within(t, time.Duration(ms)*time.Millisecond)
			_, err := r.TryLock(ctx, []string{"a", "b"}, time.Minute) // One resource would need no script.
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

// What is won just as the caller goes is the caller's, who has it to release, but for a Do, whose function is not called
// any more. Nothing else of it stays, and the next in line has the lock at once.
func TestLockThatIsWonAsItsCallerGoes(t *testing.T) {
	for name, tt := range map[string]struct {
		do   bool
		opts []redlock.Option
	}{
		"Lock, in line":   {opts: slowly()},
		"Lock, in time":   {opts: append(slowly(), redlock.WithWait(time.Hour))},
		"Lock, polling":   {opts: append(every(time.Second, -1), redlock.WithPolling())},
		"Do, of min hold": {do: true, opts: append(slowly(), redlock.WithMinHold(ttl/2))},
		"Do, polling":     {do: true, opts: append(every(time.Second, -1), redlock.WithPolling())},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			var come atomic.Pointer[context.CancelFunc] // before the call hears that its round was decided
			r := newWarm(t, c, redlock.WithTracer(testkit.TracerFuncs{OnWants: func(kind redlock.EventKind) bool {
				if kind == redlock.EventDecided {
					if end := come.Swap(nil); end != nil {
						(*end)()
					}
				}
				return false
			}}))
			slowDown(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			held := lockElsewhere(t, c, "x", time.Hour)
			var l *redlock.Lock
			done := meanwhile(func() (err error) {
				if tt.do {
					return r.Do(ctx, []string{"x"}, ttl, func(context.Context, *redlock.Lock) error {
						assert.Fail(t, "nobody wants it any more")
						return nil
					}, tt.opts...)
				}
				l, err = r.Lock(ctx, []string{"x"}, ttl, tt.opts...)
				return err
			})
			time.Sleep(1500 * time.Millisecond) // It has been refused, and listens.
			come.Store(&cancel)
			require.NoError(t, held.Unlock(t.Context()))
			err := <-done
			require.ErrorIs(t, ctx.Err(), context.Canceled, "the round was decided")
			next := newRedlock(t, c)
			if tt.do {
				require.ErrorIs(t, err, redlock.ErrNotAcquired)
				require.ErrorIs(t, err, context.Canceled)
			} else {
				require.NoError(t, err)
				assert.Equal(t, 1, r.Stats().Held)
				startLock(t, next, []string{"x"}, slowly()...).takesOver(t, l, 50*time.Millisecond)
			}
			begun := time.Now()
			waitLock(t, next, []string{"x"}, ttl, slowly()...)
			assert.Less(t, time.Since(begun), 50*time.Millisecond, "it is free")
			stats := r.Stats()
			assert.Zero(t, stats.Held+stats.Kept+stats.Waiting+stats.Asking)
		})
	}
}
