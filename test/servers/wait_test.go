package servers

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// usersOf returns the nodes of a cluster for a user with these rights.
func usersOf(t *testing.T, c *testcluster.Cluster, rights string) []redlock.Node {
	t.Helper()
	var nodes []redlock.Node
	for _, n := range c.Nodes {
		args := []any{"SETUSER", "u", "on", ">pw", "resetchannels"}
		for _, s := range strings.Fields(rights) {
			args = append(args, s)
		}
		admin(t, n, "ACL", args...)
		nodes = append(nodes, redlock.NewNode(n.DirectAddr(), redis.DialUsername("u"), redis.DialPassword("pw")))
	}
	return nodes
}

// leastRights is the line of docs/operations.md.
const leastRights = "-@all +ping +evalsha +eval +script|load +get +set +del +exists +pttl +pexpire +time " +
	"+zadd +zrem +zcard +zpopmin +publish +subscribe &locks:__redlock__:* ~locks:*"

// Whatever a user may not do, waiting works: by polling, and that is said once.
func TestWaitingWithRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rights string
		says   string // empty: wake-ups work
	}{
		"least":                       {leastRights, ""},
		"no channels":                 {strings.ReplaceAll(leastRights, "&locks:__redlock__:* ", ""), "NOPERM"},
		"no SUBSCRIBE":                {strings.ReplaceAll(leastRights, "+subscribe ", ""), "NOPERM"},
		"no PUBLISH":                  {strings.ReplaceAll(leastRights, "+publish ", ""), "PUBLISH"},
		"no lines":                    {strings.ReplaceAll(leastRights, "+zadd +zrem +zcard +zpopmin ", ""), "not put in line"},
		"no key that is not declared": {strings.ReplaceAll(leastRights, "~locks:*", "~locks:*[^lr]"), "not put in line"},
		"no TIME, no ZREM":            {strings.NewReplacer("+time ", "", "+zrem ", "").Replace(leastRights), "not put in line"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testcluster.RunServers(t, 3)
			nodes := usersOf(t, cluster, c.rights)
			var mu sync.Mutex
			said := map[string][]string{}
			client := func(name string) *redlock.Redlock {
				return newPatient(t, nodes, redlock.WithPrefix("locks:"), redlock.WithHook(func(_ context.Context, e redlock.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == redlock.EventPolling {
						said[name+e.Node] = append(said[name+e.Node], e.Err.Error())
					}
				}))
			}
			a, b := client("a"), client("b")
			for range rounds(3, 2) {
				held := tryLock(t, a, []string{"job"}, time.Minute)
				took := handOver(t, held, b, "job")
				assert.Less(t, took, time.Second, "a fraction of the time for which nobody else would have had it")
				// The listeners come back, as after a time in which nobody waits.
				for _, n := range cluster.Nodes {
					admin(t, n, "CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
			if c.says != "" {
				await(t, patience, "somebody says so", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(said) > 0
				})
			}
			mu.Lock()
			defer mu.Unlock()
			if c.says == "" {
				assert.Empty(t, said)
			}
			for who, texts := range said {
				assert.Len(t, texts, 1, "%s: %q", who, texts)
				assert.Contains(t, strings.ToLower(texts[0]), strings.ToLower(c.says))
			}
		})
	}
}

// handOver has another client wait for the lock, releases it, and returns how long
// the other one still had to wait.
func handOver(t *testing.T, held *redlock.Lock, other *redlock.Redlock, resource string, opts ...redlock.Option) time.Duration {
	t.Helper()
	got := make(chan *redlock.Lock, 1)
	go func() {
		l, err := other.Lock(t.Context(), []string{resource}, time.Minute, append([]redlock.Option{redlock.WithRetryCount(-1)}, opts...)...)
		assert.NoError(t, err)
		got <- l
	}()
	await(t, patience, "somebody waits", func() bool { return other.Stats().Waiting > 0 && other.Stats().Taken > 0 })
	rest(t.Context(), 300*time.Millisecond)
	released := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	l := <-got
	require.NotNil(t, l)
	took := time.Since(released)
	require.NoError(t, l.Unlock(t.Context()))
	return took
}

// Names with any bytes are told to others as they are.
func TestWaitingForOddNames(t *testing.T) {
	cluster := testcluster.RunServers(t, 3)
	a := newPatient(t, serverNodes(cluster), redlock.WithPrefix("p \x00\n"))
	b := newPatient(t, serverNodes(cluster), redlock.WithPrefix("p \x00\n"))
	for _, res := range []string{"a b\"'\r\n\x00", "\xff\xfe", strings.Repeat("k", 100_000), "{x}", "%s%d*?[a"} {
		held := tryLock(t, a, []string{res, "z"}, time.Minute)
		assert.Less(t, handOver(t, held, b, res, redlock.WithRetryDelay(time.Minute)), 30*time.Second, "%.10q", res)
	}
}
