package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestAuthOfServersThatRequireAPassword(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--requirepass", secret))
	address := func(password string, opts ...redis.DialOption) []redlock.Node {
		return nodesBy(c, func(n *testcluster.Node) redlock.Node { return redlock.NewNode(password+n.Addr(), opts...) })
	}
	for says, nodes := range map[string][]redlock.Node{"NOAUTH": address(""), "WRONGPASS": address("redis://:nonsense@")} {
		err := refusal(t, redlock.ErrNoQuorum, newPatient(t, nodes), []string{"a"}, time.Minute)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nonsense")
	}
	for name, nodes := range map[string][]redlock.Node{
		"dial option":                  address("", redis.DialPassword(secret)),
		"password in the address":      address("redis://:" + url.QueryEscape(secret) + "@"),
		"lone password in the address": address("redis://" + url.QueryEscape(secret) + "@"),
	} {
		r := newPatient(t, nodes)
		release(t, tryLock(t, r, []string{"a"}, time.Minute))
		require.NotContains(t, r.Stats().Nodes[0].Node, "@", "%s: a name has no credentials", name)
	}
}

// leastPrivilege is what a user of a server with access control needs at least:
//
//	ACL SETUSER locker on >password ~locks:* +evalsha +eval +script|load +get +set +del +pttl +pexpire
//
// with WithPrefix("locks:"). A database other than 0 also takes +select. A PING that is not permitted is answered, too, and
// the answer is all that it is for; +ping keeps the server's ACL LOG clean.
var leastPrivilege = []string{"+evalsha", "+eval", "+script|load", "+get", "+set", "+del", "+pttl", "+pexpire"}

// That every right is needed, redlockcheck.TestRightsAreThoseOfTheScripts says.
func TestAuthOfAUserWithTheLeastPrivileges(t *testing.T) {
	t.Parallel()
	n := testcluster.RunServers(t, 1).Nodes[0]
	as := func(path string, rules ...string) *redlock.Redlock {
		setUser(t, n, "locker", slices.Concat(leastPrivilege, []string{"~locks:*"}, rules)...)
		node := redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.Addr() + path)
		return newPatient(t, []redlock.Node{node}, redlock.WithPrefix("locks:"))
	}
	for path, rule := range map[string]string{"": "+ping", "/0": "+ping", "/7": "+select"} {
		r := as(path, rule)
		l := tryLock(t, r, []string{"a", "b"}, time.Minute)
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute) // It tells how long the holder's keys live.
		require.NoError(t, l.Extend(t.Context(), 2*time.Minute))
		release(t, l)
		require.NoError(t, n.FlushScripts()) // They come with the request then.
		cycle(t, r, "a", time.Minute)
	}
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, as("/7"), []string{"a"}, time.Minute), "select")
}

// notPermitted is how servers of any version say so.
const notPermitted = `NOPERM|No permission|can't run this command|ACL failure|can't access`

// A lock on one resource is the server's own SET, which this user may use. Its release has keys of the library's own.
func TestAuthOfAUserWhoCouldNotReleaseALock(t *testing.T) {
	t.Parallel()
	n := testcluster.RunServers(t, 1).Nodes[0]
	setUser(t, n, "locker", append(slices.Clone(leastPrivilege), "~a")...)
	r := newPatient(t, []redlock.Node{redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.Addr())})
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute), "no lock could be released")
	_, held, err := n.Get("a")
	require.NoError(t, err)
	assert.False(t, held)
}

// The password of the servers changes, and the server ends the connections that were made
// with the old one, as managed services do whose tokens expire. A PoolFunc that looks the
// password up follows; locks that are held go on.
func TestAuthWithCredentialsThatChange(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var issued atomic.Int64 // The current password is a function of it.
	password := func() string { return fmt.Sprintf("token-%d", issued.Load()) }
	rotate := func() {
		issued.Add(1)
		for _, n := range c.Nodes {
			admin(t, n, "ACL", "SETUSER", "app", "reset", "on", ">"+password(), "~*", "&*", "+@all")
			admin(t, n, "CLIENT", "KILL", "USER", "app")
		}
	}
	nodes := nodesBy(c, func(n *testcluster.Node) redlock.Node {
		return redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return redlock.NewNode(n.DirectAddr(), redis.DialUsername("app"), redis.DialPassword(password())).Pool.GetContext(ctx)
		})}
	})
	rotate()
	r := newPatient(t, nodes)
	held := tryLock(t, r, []string{"held"}, time.Minute)
	for range 5 {
		rotate()
		await(t, patience, "locks are got with the new password", func() bool {
			l, lockErr := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			return lockErr == nil && l.Unlock(t.Context()) == nil
		})
		require.NoError(t, held.Extend(t.Context(), time.Minute))
	}
	require.NoError(t, held.Unlock(t.Context()))
}

// A wrappedConn is a connection as a pool hands it out that traces or counts commands.
type wrappedConn struct{ fullConn }

type fullConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// What a node of NewNode hands out is an ordinary connection, also to a PoolFunc that uses it
// or wraps it before it returns it.
func TestAuthOfAPoolFunc(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--requirepass", secret))
	for name, f := range map[string]func(redis.Conn) (redis.Conn, error){
		"used": func(c redis.Conn) (redis.Conn, error) {
			_, err := c.Do("CLIENT", "SETNAME", "locks")
			return c, err
		},
		"used piece by piece": func(c redis.Conn) (redis.Conn, error) {
			sent := errors.Join(c.Send("ECHO", "mine"), c.Flush())
			reply, err := redis.String(c.Receive())
			assert.Equal(t, "mine", reply)
			return c, errors.Join(sent, err)
		},
		"wrapped": func(c redis.Conn) (redis.Conn, error) { return wrappedConn{c.(fullConn)}, nil },
	} {
		nodes := func(database string) []redlock.Node {
			return nodesBy(c, func(n *testcluster.Node) redlock.Node {
				inner := redlock.NewNode("redis://:" + url.QueryEscape(secret) + "@" + n.DirectAddr() + database)
				return redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
					conn, err := inner.Pool.GetContext(ctx)
					if err != nil {
						return nil, err
					}
					return f(conn)
				})}
			})
		}
		r := newPatient(t, nodes(""))
		for range 10 {
			release(t, tryLock(t, r, []string{"a"}, time.Minute))
		}
		err := refusal(t, redlock.ErrNoQuorum, newPatient(t, nodes("/99")), []string{"a"}, time.Minute)
		require.ErrorContains(t, err, "DB index is out of range", name)
	}
}

// documentedRights are those of the user for locks in docs/operations.md.
func documentedRights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^user locker on >secret (.*)$`).FindAllSubmatch(text, -1)
	require.Len(t, found, 1)
	return string(found[0][1])
}

// A real server loads what the documents show, and the user that it makes may do all that the library does. Check has an
// answer for it: it does not end in "unknown".
func TestACLOfTheDocumentsIsLoaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "acl")
	require.NoError(t, os.WriteFile(file, []byte("user locker on >secret "+documentedRights(t)+"\n"), 0o600))
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--appendonly", "yes", "--appendfsync", "always", "--aclfile", file))
	nodes := nodesBy(c, func(n *testcluster.Node) redlock.Node {
		return redlock.NewNode("redis://locker:secret@" + n.DirectAddr())
	})
	requireLocks(t, nodes)
	report := checked(t, nodes, redlock.WithPrefix("locks:"), redlock.WithFencing(), redlock.WithQuarantine(time.Minute))
	assert.Equal(t, redlockcheck.OK, report.Verdict())
	report = checked(t, nodes)
	assert.Equal(t, redlockcheck.Unfit, report.Verdict())
	assert.Contains(t, report.String(), "the user may not use keys without a prefix")
	assert.Contains(t, report.String(), "Give the prefix")
}

// requireLocks uses locks with fencing and quarantine, and has a waiter be told of a release.
func requireLocks(t *testing.T, nodes []redlock.Node) {
	t.Helper()
	var polls atomic.Int64
	opts := []redlock.Option{
		redlock.WithPrefix("locks:"), redlock.WithFencing(), redlock.WithQuarantine(time.Minute),
		redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventPolling {
				polls.Add(1)
			}
		}),
	}
	a, b := newPatient(t, nodes, opts...), newPatient(t, nodes, opts...)
	require.NoError(t, a.Admit(t.Context(), nodes[0].Name, nodes[1].Name, nodes[2].Name))
	first, err := a.Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
	got := waiting(t, b, "x", true)
	require.NoError(t, first.Extend(t.Context(), time.Minute))
	require.NoError(t, first.Unlock(t.Context()))
	second := <-got
	require.NotNil(t, second)
	require.NoError(t, second.Unlock(t.Context()))
	require.Zero(t, polls.Load())
}

// A server that refuses a client says why, and hangs up. That is what a newcomer meets first: protected mode.
func TestRefusalOfAServerIsTold(t *testing.T) {
	t.Parallel()
	full := testcluster.RunServers(t, 1).Nodes[0]
	_, err := adminConn(t, full).Do("CONFIG", "SET", "maxclients", 1) // It stays connected.
	require.NoError(t, err)
	for range 10 { // Its words and the end of the connection race with what it is sent.
		r := newPatient(t, []redlock.Node{redlock.NewNode(full.Addr())})
		require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute), "max number of clients")
	}
	report := checked(t, []redlock.Node{redlock.NewNode(full.Addr())}).String()
	require.Contains(t, report, "max number of clients")
	require.Contains(t, report, "It runs: see what it says")
}

// Whatever a user may not do, waiting works: by polling, and that is said once.
func TestWaitingWithRights(t *testing.T) {
	t.Parallel()
	all := strings.NewReplacer("+info", "", "resetchannels", "").Replace(documentedRights(t))
	without := func(rights ...string) string {
		rest := strings.Fields(all)
		for _, right := range rights {
			require.Contains(t, rest, right)
			rest = slices.DeleteFunc(rest, func(has string) bool { return has == right })
		}
		return strings.Join(rest, " ")
	}
	for name, c := range map[string]struct {
		rights string
		says   string // empty: wake-ups work
	}{
		"all":                         {all, ""},
		"no channels":                 {without("&locks:__redlock__:*"), "NOPERM"},
		"no SUBSCRIBE":                {without("+subscribe"), "NOPERM"},
		"no PUBLISH":                  {without("+publish"), "PUBLISH"},
		"no lines":                    {without("+zadd", "+zrem", "+zcard", "+zpopmin"), "not put in line"},
		"no key that is not declared": {without("~locks:*") + " ~locks:*[^lr]", "not put in line"},
		"no TIME, no ZREM":            {without("+time", "+zrem"), "not put in line"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testcluster.RunServers(t, 3)
			nodes := nodesBy(cluster, func(n *testcluster.Node) redlock.Node {
				setUser(t, n, "u", append([]string{"resetchannels"}, strings.Fields(c.rights)...)...)
				return redlock.NewNode(n.DirectAddr(), redis.DialUsername("u"), redis.DialPassword(secret))
			})
			var rec testkit.Recorder
			opts := []redlock.Option{redlock.WithPrefix("locks:"), redlock.WithHook(rec.Hook)}
			a, b := newPatient(t, nodes, opts...), newPatient(t, nodes, opts...)
			var said []redlock.Event
			for range rounds(3, 2) {
				const job = "any bytes \"'\r\n\x00\xff{x}%s"
				took := handOver(t, tryLock(t, a, []string{job}, time.Minute), b, job)
				assert.Less(t, took, time.Second, "a fraction of the time for which nobody else would have had it")
				// The listeners come back, as after a time in which nobody waits.
				for _, n := range cluster.Nodes {
					admin(t, n, "CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
			await(t, patience, "somebody says so, if there is anything", func() bool {
				said = append(said, rec.TakeOf(redlock.EventPolling)...)
				return len(said) > 0 || c.says == ""
			})
			assert.LessOrEqual(t, len(said), 2*len(nodes), "each client says it once of each node")
			for _, e := range said {
				assert.Contains(t, strings.ToLower(e.Err.Error()), strings.ToLower(c.says))
				assert.NotEmpty(t, c.says, "wake-ups work")
			}
		})
	}
}

// handOver has another client wait for the lock, releases it, and returns how long
// the other one still had to wait.
func handOver(t *testing.T, held *redlock.Lock, other *redlock.Redlock, resource string, opts ...redlock.Option) time.Duration {
	t.Helper()
	got := waiting(t, other, resource, false, opts...)
	rest(t.Context(), 300*time.Millisecond)
	released := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	l := <-got
	require.NotNil(t, l)
	took := time.Since(released)
	require.NoError(t, l.Unlock(t.Context()))
	return took
}

// waiting has a client wait for a lock. One that listens would sleep for longer than the test, if it were not told.
func waiting(t *testing.T, r *redlock.Redlock, resource string, listens bool, opts ...redlock.Option) <-chan *redlock.Lock {
	t.Helper()
	opts = append(opts, redlock.WithRetryCount(-1))
	if listens {
		opts = append(opts, redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
	}
	got := make(chan *redlock.Lock, 1)
	go func() {
		l, err := r.Lock(t.Context(), []string{resource}, time.Minute, opts...)
		assert.NoError(t, err)
		got <- l
	}()
	await(t, patience, "it waits", func() bool {
		s := r.Stats()
		return s.Waiting > 0 && s.Taken > 0 && (s.Nodes[0].Listens || !listens)
	})
	return got
}
