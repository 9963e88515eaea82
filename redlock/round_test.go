package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A lock request whose release has overtaken it in the caller's mind, though not
// on the wire: it is dropped, and the round hears of it at once.
func TestALockRequestThatWasGivenUpIsNotSent(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 1)
		rd := r.newRound(t.Context(), OpLock, cl, cl.lockCommand(), node.LockRequest, decideLock, 1)
		r.nodes[0].Release(&cl.Token, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		assert.Equal(t, node.ErrWithdrawn, rd.copyVotes()[0].Err)
		requireNoKeys(t, c)
	})
}

// What the hook was told is what the call returns, even if a quorum says yes
// between the end of the waiting and the look at the votes.
func TestAQuorumAfterTheCallWasCutShortIsNone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		told := make(chan Event, 10)
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			if len(e.Resources) == 1 && e.Resources[0] == "a" {
				told <- e
			}
		}))
		warm(t, r)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 3)
		rd := r.newRound(t.Context(), OpLock, cl, cl.lockCommand(), node.LockRequest, decideLock, 1)
		rd.ask(time.Now(), 100*time.Millisecond)
		rd.giveUp(context.Canceled)
		time.Sleep(10 * time.Millisecond)
		v, votes := rd.result()
		assert.Equal(t, 3, votes.yes)
		assert.Equal(t, undecided, v)
		require.Len(t, told, 2)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
	})
}

// An extension that passed its checks just before the release must not give the
// keys that are left a new life.
func TestAnExtensionDoesNotLengthenAMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, WithMinHold(5*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		rd := r.newRound(t.Context(), OpExtend, l.claim, extendCommand(l.claim.keys, l.claim.token, time.Hour, nil), node.Ask, decideExtend, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}
