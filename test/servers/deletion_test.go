package servers

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Newer servers have a command for releases. With older ones most of this file is skipped: nothing changes there.

// deletesBy is the command by which the library releases a lock on the server; empty if that has none.
func deletesBy(t *testing.T, n *testcluster.Node) string {
	t.Helper()
	conn := adminConn(t, n)
	for _, command := range [][]any{{"DELEX", "none", "IFEQ", ""}, {"DELIFEQ", "none", ""}} {
		if _, err := conn.Do(command[0].(string), command[1:]...); err == nil {
			return strings.ToLower(command[0].(string))
		}
	}
	return ""
}

// newServers starts servers that have such a command.
func newServers(t *testing.T, n int) (c *testcluster.Cluster, deletes string) {
	t.Helper()
	c = testcluster.RunServers(t, n)
	if deletes = deletesBy(t, c.Nodes[0]); deletes == "" {
		t.Skip("the server knows neither DELIFEQ nor DELEX")
	}
	return c, deletes
}

// calls is how often the server has carried out a command.
func calls(t *testing.T, n *testcluster.Node, command string) (count int) {
	t.Helper()
	stats, err := redis.String(admin(t, n, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	if _, of, found := strings.Cut(stats, "cmdstat_"+command+":calls="); found {
		_, err = fmt.Sscanf(of, "%d,", &count)
		require.NoError(t, err)
	}
	return count
}

// Where the user may not use the command, the script is sent, also if the right is taken away later. That is no vote.
func TestReleaseOfAUserWithoutTheCommand(t *testing.T) {
	t.Parallel()
	c, deletes := newServers(t, 1)
	n := c.Nodes[0]
	release := func(r *redlock.Redlock) (deletions, scripts int) {
		l := tryLock(t, r, []string{"a"}, time.Minute)
		before, scriptsBefore := calls(t, n, deletes), calls(t, n, "evalsha")
		require.NoError(t, l.Unlock(t.Context()))
		return calls(t, n, deletes) - before, calls(t, n, "evalsha") - scriptsBefore
	}
	user := func(rules ...string) *redlock.Redlock {
		setUser(t, n, "locker", append(slices.Clone(leastPrivilege), append(rules, "~*")...)...)
		r := newPatient(t, []redlock.Node{redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.DirectAddr())})
		require.NoError(t, tryLock(t, r, []string{"first"}, time.Minute).Unlock(t.Context()))
		return r
	}
	without := user()
	deletions, scripts := release(without)
	assert.Equal(t, []int{0, 1}, []int{deletions, scripts}, "without the right")
	with := user("+" + deletes)
	deletions, scripts = release(with)
	assert.Equal(t, []int{1, 0}, []int{deletions, scripts}, "with the right")
	admin(t, n, "ACL", "SETUSER", "locker", "-"+deletes)
	for _, when := range []string{"as it is taken away", "without it"} {
		deletions, scripts = release(with)
		assert.Equal(t, []int{0, 1}, []int{deletions, scripts}, when)
	}
	assert.Equal(t, int64(1), with.Stats().Nodes[0].Connects)
	assert.Zero(t, with.Stats().Nodes[0].Votes.Failed)
	require.Empty(t, keys(t, n))
}

// having is how many nodes have a key.
func having(t *testing.T, c *testcluster.Cluster, key string) (count int64) {
	t.Helper()
	for _, n := range c.Nodes {
		count += admin(t, n, "EXISTS", key).(int64)
	}
	return count
}

// Who waits is told all the same, in turn, and nothing is left.
func TestReleaseByACommandWakesWhoWaits(t *testing.T) {
	t.Parallel()
	c, deletes := newServers(t, 3)
	holder := newPatient(t, nodesOf(c))
	waiter := newPatient(t, nodesOf(c))
	require.True(t, lockEverywhere(t, c, holder, "first"))
	require.True(t, lockEverywhere(t, c, waiter, "first"))
	before := calls(t, c.Nodes[0], deletes)
	for range 20 {
		held := tryLock(t, holder, []string{"a"}, time.Minute)
		got := make(chan *redlock.Lock, 1)
		go func() {
			l, err := waiter.Lock(t.Context(), []string{"a"}, time.Minute, redlock.WithRetryDelay(time.Minute), redlock.WithRetryCount(-1))
			assert.NoError(t, err)
			got <- l
		}()
		await(t, patience, "it is in line", func() bool { return having(t, c, "__redlock__:w:a:bl") >= 2 })
		require.NoError(t, held.Unlock(t.Context()))
		select {
		case l := <-got:
			require.NoError(t, l.Unlock(t.Context()))
		case <-time.After(20 * time.Second):
			t.Fatal("nobody has told who waits")
		}
		await(t, patience, "no lock is left", func() bool { return having(t, c, "a") == 0 })
	}
	assert.GreaterOrEqual(t, calls(t, c.Nodes[0], deletes)-before, 20)
}
