package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Wake-ups that were lost: each of these slept until its next timed retry, though the lock was free.

// A process that was told of a release, and whose call ends because its attempt was turned away before any node was
// asked, tells nobody else of it.
func TestWaitLineTellsTheNextIfItIsTurnedAway(t *testing.T) {
	for _, turned := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			a, b := newRedlock(t, c), newRedlock(t, c)
			held := lockElsewhere(t, c, "x", time.Hour)
			// It fails fast where the lock is not merely taken, as WithRetryIf's words advise.
			first := startLock(t, a, []string{"x"}, append(slowly(), redlock.WithRetryIf(func(err error) bool { return errors.Is(err, redlock.ErrTaken) }))...)
			second := startLock(t, b, []string{"x"}, slowly()...)
			time.Sleep(time.Second)
			gate := testkit.AdmissionOf(a)
			for range 4096 {
				busy, _, limit := gate.Stats()
				if !turned || busy >= limit {
					break
				}
				_, err := gate.Enter(context.Background(), time.Second)
				require.NoError(t, err)
			}
			start := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			<-first.done
			if !turned {
				require.NoError(t, first.err)
				require.NoError(t, first.lock.Unlock(t.Context()))
			} else {
				require.ErrorIs(t, first.err, redlock.ErrNoQuorum)
			}
			t.Log("the first has ended after", time.Since(start))
			second.got(t)
			synctest.Wait()
			assert.Less(t, time.Since(start), time.Second, "turned away: %v; the next one slept", turned)
		})
	}
}

// A process that cannot hear of releases hands its own over among its callers: also to one that was refused by the lock
// which is released before it is in line.
func TestWaitHandOverFindsWhoIsAboutToWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, withOneConnection(c, false))
		warm(t, r)
		held := tryLock(t, r, []string{"x"}, time.Hour)
		w := startLock(t, r, []string{"x"}, append(slowly(), redlock.WithRetryIf(func(error) bool {
			assert.NoError(t, held.Unlock(t.Context()))
			return true
		}))...)
		start := time.Now()
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Less(t, time.Since(start), time.Second)
	})
}

// A call that asks for itself behind a head with another retry delay gets the lock by an attempt that is not in line. If
// the head has given up meanwhile, and its process was told of the release, the resource stays reserved for that process:
// the call's own release within 100 ms tells nobody, and the next process sleeps until its retry delay is over.
func TestWaitLineLeavesNoReservationToWhoHasTheLock(t *testing.T) {
	for _, headLeaves := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, way := ownWay(t, c)
			a, b := newOver(t, nodes), newRedlock(t, c)
			held := lockElsewhere(t, c, "x", time.Hour)
			first := startLock(t, a, []string{"x"}, slowly()...)
			second := startLock(t, a, []string{"x"}, every(300*time.Millisecond, -1)...) // It asks 300 ms after it came: in 250 ms.
			third := startLock(t, b, []string{"x"}, slowly()...)                         // 50 ms later.
			for _, p := range way {
				p.SetDelay(10*time.Millisecond, 10*time.Millisecond)
			}
			time.Sleep(201 * time.Millisecond)
			if headLeaves {
				first.cancel()
			}
			time.Sleep(time.Millisecond)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			var wg sync.WaitGroup
			for i, w := range []*waitingLock{first, second, third} {
				wg.Go(func() {
					if <-w.done; w.err != nil {
						return
					}
					t.Logf("waiter %d has it after %v", i+1, w.at.Sub(released))
					assert.NoError(t, w.lock.Unlock(t.Context()))
				})
			}
			wg.Wait()
			assert.Less(t, third.at.Sub(released), time.Second, "head leaves: %v", headLeaves)
		})
	}
}

// A machine sleeps during an attempt, which so comes to nothing though a quorum has granted the lock. That attempt has
// used up its time, but not by the clock that stood still: it wakes nobody, and who was told of the release before, and
// was refused because of it, sleeps until its keys would have ended.
func TestWaitAttemptThatIsSleptThroughWakesTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, way := ownWay(t, c)
		a := newOver(t, nodes)
		warm(t, a)
		for _, p := range way {
			p.SetDelay(50*time.Millisecond, 50*time.Millisecond)
		}
		bnodes, bway := ownWay(t, c)
		b := newOver(t, bnodes)
		held := lockElsewhere(t, c, "x", time.Hour)
		w := startLock(t, b, []string{"x"}, slowly()...)
		for _, p := range bway {
			p.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		}
		done := make(chan error, 1)
		go func() {
			_, err := a.TryLock(t.Context(), []string{"x"}, ttl, redlock.WithMinHold(8*time.Second))
			done <- err
		}()
		time.Sleep(49 * time.Millisecond)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(10 * time.Millisecond)
		testkit.WallOffset(a).Add(int64(3 * time.Second))
		require.ErrorIs(t, <-done, redlock.ErrNoQuorum)
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		free := time.Now()
		requireNoKeys(t, c)
		l := w.got(t)
		assert.Less(t, w.at.Sub(free), time.Second)
		require.NoError(t, l.Unlock(t.Context()))
	})
}
