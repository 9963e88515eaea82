package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// One process takes the lock, another one releases it, a third one waits for it.
func TestRealReleaseByAnotherProcess(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	first, worker, other := newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c))
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}, {redlock.WithOwner(oddOwner)}} {
		l, err := first.TryLock(t.Context(), []string{"a", "b"}, time.Minute, opts...)
		require.NoError(t, err)
		got := make(chan *redlock.Lock)
		go func() {
			next, err := other.Lock(context.Background(), []string{"b"}, time.Minute, redlock.WithRetryCount(-1), redlock.WithRetryDelay(2*time.Second))
			assert.NoError(t, err)
			got <- next
		}()
		await(t, 30*time.Second, "somebody waits", func() bool { return other.Stats().Waiting == 1 })
		await(t, 30*time.Second, "a quorum confirms the release", func() bool { // The machine may be slow.
			release := worker.Release(t.Context(), l.Resources(), l.Token())
			require.True(t, release == nil || errors.Is(release, redlock.ErrNoQuorum), "%v", release)
			return release == nil
		})
		next := <-got
		require.ErrorIs(t, worker.Release(t.Context(), l.Resources(), l.Token()), redlock.ErrLost)
		require.NoError(t, next.Extend(t.Context(), time.Minute), "another's lock is not touched")
		require.NoError(t, next.Unlock(t.Context()))
		awaitNoKeys(t, c, 30*time.Second)
	}
}

// The lock is released in the end, whatever happens to the connections of both processes
// meanwhile, and nobody else gets it before. No key is left but what a lock request of the
// first process has set that reached a node after the release.
func TestRealReleaseByAnotherProcessThroughFaults(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	first, worker, other := newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c)), newRealRedlock(t, nodesOf(c))
	logs := make([]*commandLog, len(c.Nodes))
	for i, n := range c.Nodes {
		n.Proxy().SetDelay(0, 2*time.Millisecond)
		logs[i] = logCommands(t, n)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var handed atomic.Int64
	ctx := eventful(t, scenario(4*time.Second, time.Second), func() bool { return handed.Load() > 0 })
	wg.Go(func() { // One node's connections at a time: a quorum is there.
		for rest(ctx, 0, 20*time.Millisecond) {
			c.Nodes[rand.IntN(len(c.Nodes))].Proxy().Reset()
		}
	})
	lost := 0
	for ctx.Err() == nil {
		l, err := first.TryLock(t.Context(), []string{"a"}, time.Minute)
		if err != nil {
			continue
		}
		if _, refused := other.TryLock(t.Context(), []string{"a"}, time.Minute); refused == nil {
			t.Fatal("two holders")
		}
		first := true
		for begun := time.Now(); ; first = false {
			err = worker.Release(t.Context(), l.Resources(), l.Token())
			if !errors.Is(err, redlock.ErrNoQuorum) {
				break
			}
			require.Less(t, time.Since(begun), time.Minute, "no quorum confirms the release: %v", err)
		}
		handed.Add(1)
		if err != nil {
			require.ErrorIs(t, err, redlock.ErrLost)
			if first { // Repeated, it may say so of a lock that an earlier call has released.
				lost++
			}
		}
	}
	wg.Wait()
	assert.Positive(t, handed.Load())
	assert.Zero(t, lost, "of %d", handed.Load())
	for i, n := range c.Nodes {
		await(t, 30*time.Second, "no key is left on "+n.Name()+" but by late requests", func() bool {
			left, ok := keys(t, n)["a"]
			return !ok || logs[i].isLate(left.Value)
		})
	}
}

// A commandLog knows what a server has done with each token: its lock requests, and its
// releases, in their order.
type commandLog struct {
	mu   sync.Mutex
	late map[string]bool // by token that was released: whether a lock request came after it
}

// logCommands listens to all that a server does, until the end of the test.
func logCommands(t *testing.T, n *testcluster.Node) *commandLog {
	t.Helper()
	l := &commandLog{late: make(map[string]bool)}
	conn := adminConn(t, n)
	_, err := conn.Do("MONITOR")
	require.NoError(t, err)
	go func() {
		for {
			line, err := redis.String(redis.ReceiveWithTimeout(conn, 0))
			if err != nil {
				return // The test has ended, and the connection with it.
			}
			l.note(strings.Fields(line))
		}
	}()
	return l
}

// note reads a line of MONITOR: time, database and client, then the command and its
// arguments, in quotes. The token comes right after the keys.
func (l *commandLog) note(line []string) {
	if len(line) < 6 || line[3] != `"EVALSHA"` {
		return
	}
	unquoted := func(i int) string { return strings.Trim(line[i], `"`) }
	count, err := strconv.Atoi(unquoted(5))
	if err != nil || len(line) <= 6+count {
		return
	}
	script, token := unquoted(4), unquoted(6+count)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, released := l.late[token]
	switch {
	case script == redlock.UnlockScript.Hash:
		l.late[token] = false
	case released && script == redlock.LockScript.Hash:
		l.late[token] = true
	}
}

// isLate reports whether the last lock request of the token came after a release of it.
func (l *commandLog) isLate(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late[token]
}
