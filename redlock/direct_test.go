package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

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
		"one resource": {[]string{"a"}, nil, "SET PTTL unlock"},
		"two":          {[]string{"a", "b"}, nil, "lock unlock"},
		"fencing":      {[]string{"a"}, []redlock.Option{redlock.WithFencing()}, "fencedLock unlock"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
				r := newRedlock(t, cl, c.opts...)
				warm(t, r)
				synctest.Wait()
				take := commandsOf(t, cl.Nodes[0])
				l, err := r.TryLock(t.Context(), c.resources, ttl)
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
				assert.Equal(t, c.want, take())
			})
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
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(10 * time.Second)
			_, err = other.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.ErrorIs(t, err, redlock.ErrTaken)
			refusals := 0
			for _, v := range votesOf(t, err) {
				if v.Err == redlock.ErrPending { //nolint:errorlint // Not waited for.
					continue
				}
				refusals++
				assert.Equal(t, "api-1", v.Owner)
				assert.Equal(t, tokens.Digest(l.Token()), v.Holder)
				assert.Equal(t, 50*time.Second, v.HolderTTL)
			}
			assert.GreaterOrEqual(t, refusals, 2)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			for i, key := range []struct {
				value string
				ttl   time.Duration
				want  time.Duration
			}{{"somebody's", 0, -1}, {"somebody's", time.Second, time.Second}} {
				for _, n := range c.Nodes {
					require.NoError(t, n.Set(fmt.Sprint("b", i), key.value, key.ttl))
				}
				_, err = other.TryLock(t.Context(), []string{fmt.Sprint("b", i)}, ttl)
				require.ErrorIs(t, err, redlock.ErrTaken)
				assert.Contains(t, ttlsOf(votesOf(t, err)), key.want)
			}
		})
	}
}

// A server before Redis 7.0 refuses NX with GET. Its connection goes on with the script; the next one asks again, as
// the server may be a newer one by then.
func TestLockOnAnOldServerFallsBackToTheScript(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		require.NoError(t, n.SetOld(true))
		r := newRedlock(t, c)
		take := commandsOf(t, n)
		lock := func() {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
		}
		lock()
		assert.True(t, strings.HasSuffix(take(), "SET PTTL lock unlock"))
		lock()
		assert.Equal(t, "lock unlock", take())
		require.NoError(t, n.SetOld(false))
		n.Proxy().Reset()
		time.Sleep(time.Second)
		take()
		lock()
		assert.Equal(t, "SET PTTL unlock", take())
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
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
		defer cancel()
		_, err = r.TryLock(ctx, []string{"a"}, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// A connection that ends between the two replies leaves the outcome unknown, as if there were none.
func TestLockWhoseSecondReplyIsLostLeavesNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newRedlock(t, c)
		warm(t, r)
		synctest.Wait()
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			if cmd == "PTTL" {
				n.Proxy().Reset()
			}
		}))
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, n.OnCommand(nil))
		time.Sleep(5 * time.Second)
		requireNoKeys(t, c)
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Unknown)
	})
}

// ttlsOf returns for how long the votes say that the holder has the key.
func ttlsOf(votes []redlock.Vote) (all []time.Duration) {
	for _, v := range votes {
		if errors.Is(v.Err, redlock.ErrTaken) {
			all = append(all, v.HolderTTL)
		}
	}
	return all
}
