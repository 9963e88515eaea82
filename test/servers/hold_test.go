package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A majority that is frozen: the holder hears of it at Until, however silent the
// nodes are. How late a bare timer of this process is comes on top.
func TestHoldEndsItsContextAtUntilWhenNodesFreeze(t *testing.T) {
	c := testcluster.RunServers(t, 5)
	r := newRedlock(t, c)
	for range rounds(3, 1) {
		l := waitLock(t, r, []string{"a"}, 2*time.Second)
		ctx := l.KeepAlive(t.Context())
		rest(t.Context(), 900*time.Millisecond, 1200*time.Millisecond) // One extension and a bit.
		require.NoError(t, ctx.Err())
		require.NoError(t, c.First(3).Hang())
		worst := lateness()
		<-ctx.Done()
		late := time.Since(l.Until())
		control := worst()
		t.Logf("ended %v after Until; timers of this process were up to %v late", late, control)
		require.Equal(t, redlock.ErrExpired, context.Cause(ctx))
		assert.GreaterOrEqual(t, late, time.Duration(0))
		assert.LessOrEqual(t, late, 20*time.Millisecond+control)
		require.NoError(t, c.First(3).Resume())
		await(t, 30*time.Second, "all nodes are back", func() bool { return lockEverywhere(t, c, r, "b") })
		_ = l.Unlock(t.Context())
		awaitNoKeys(t, c)
	}
}

// lateness measures until its result is called how late this process's timers
// fire: what the machine adds to every time that a test measures.
func lateness() (worst func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan time.Duration)
	go func() {
		const step = 5 * time.Millisecond
		var most time.Duration
		for start := time.Now(); rest(ctx, step, step); start = time.Now() {
			most = max(most, time.Since(start)-step)
		}
		done <- most
	}()
	return func() time.Duration {
		cancel()
		return <-done
	}
}

// Min hold on real servers: the keys stay, and are gone at the time.
func TestHoldWithMinHold(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c))
	start := time.Now()
	l := waitLock(t, r, []string{"a"}, time.Minute, redlock.WithMinHold(3*time.Second))
	require.NoError(t, l.Unlock(t.Context()))
	refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute)
	next := waitLock(t, r, []string{"a"}, time.Minute, redlock.WithRetryCount(-1), redlock.WithRetryDelay(10*time.Millisecond))
	took := time.Since(start)
	assert.GreaterOrEqual(t, took, 3*time.Second)
	assert.Less(t, took, 6*time.Second, "not for the ttl")
	require.NoError(t, next.Unlock(t.Context()))
	awaitNoKeys(t, c)
}
