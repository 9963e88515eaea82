package servers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// callAlone has a caller that is alone call until it reads by itself. It comes to that soon, but a busy machine may let
// it pause.
func callAlone(t *testing.T, r *redlock.Redlock, readers *testkit.Readers) {
	t.Helper()
	for range 100 {
		readers.Take()
		cycle(t, r, "alone", ttl)
		if callers, others := readers.Take(); callers > 0 && others == 0 {
			return
		}
	}
	require.Fail(t, "others read all the time")
}

// A caller that is alone on a server writes and reads by itself: if others come, if it gives up, if the server hangs or ends
// the connection, also between two calls, and if it restarts.
func TestAloneOnAServer(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	nodes, readers := testkit.ReadBy(c)
	r := newOver(t, nodes, redlock.WithNodeTimeout(10*time.Second))
	callAlone(t, r, readers)

	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for j := range rounds(2000, 200) {
				cycle(t, r, fmt.Sprint(i), ttl)
				if j%20 == 0 {
					rest(t.Context(), time.Duration(i)*time.Millisecond) // The others are alone, now and then.
				}
			}
		})
	}
	all.Wait()
	callAlone(t, r, readers)
	assert.EqualValues(t, 1, connects(r))

	for range 3 {
		require.NoError(t, n.Hang())
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := r.TryLock(ctx, []string{"a"}, ttl)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(began), 10*time.Second)
		require.NoError(t, n.Resume())
		awaitNoKeys(t, c)
		callAlone(t, r, readers)
	}

	for range 3 {
		admin(t, n, "CLIENT", "KILL", "TYPE", "normal")
		cycle(t, r, "a", ttl) // Whether the reader rests or not.
		callAlone(t, r, readers)
	}
	assert.Zero(t, r.Stats().Nodes[0].Unknown)

	require.NoError(t, n.Stop())
	_, err := r.TryLock(t.Context(), []string{"a"}, ttl, redlock.WithNodeTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NoError(t, n.Restart(false))
	awaitAll(t, c, r, patience)
	callAlone(t, r, readers)
	awaitNoKeys(t, c)
}
