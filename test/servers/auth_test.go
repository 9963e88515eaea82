package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

func TestAuthOfServersThatRequireAPassword(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--requirepass", secret))
	nodes := func(f func(n *testcluster.Node) redlock.Node) []redlock.Node { return nodesBy(c, f) }
	wrong := map[string][]redlock.Node{
		// A server without the setting says that in another way.
		"NOAUTH": nodes(func(n *testcluster.Node) redlock.Node { return redlock.NewNode(n.Addr()) }),
		"WRONGPASS": nodes(func(n *testcluster.Node) redlock.Node {
			return redlock.NewNode("redis://:nonsense@" + n.Addr())
		}),
	}
	for says, nodes := range wrong {
		r := newPatient(t, nodes)
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
		said := 0
		for _, v := range votesOf(t, err) {
			if !errors.Is(v.Err, redlock.ErrPending) {
				said++
				require.ErrorContains(t, v.Err, says)
			}
		}
		require.GreaterOrEqual(t, said, 2)
		require.NotContains(t, err.Error(), "nonsense")
	}
	right := map[string][]redlock.Node{
		"AUTH inside of Dial": nodes(func(n *testcluster.Node) redlock.Node {
			return redlock.Node{Name: n.Name(), Pool: &redis.Pool{Dial: func() (redis.Conn, error) {
				conn, err := redis.Dial("tcp", n.Addr())
				if err != nil {
					return nil, err
				}
				if _, err = conn.Do("AUTH", secret); err != nil {
					return nil, errors.Join(err, conn.Close())
				}
				return conn, nil
			}}}
		}),
		"dial option": nodes(func(n *testcluster.Node) redlock.Node {
			return redlock.NewNode(n.Addr(), redis.DialPassword(secret))
		}),
		"password in the address": nodes(func(n *testcluster.Node) redlock.Node {
			return redlock.NewNode("redis://:" + url.QueryEscape(secret) + "@" + n.Addr())
		}),
		"lone password in the address": nodes(func(n *testcluster.Node) redlock.Node {
			return redlock.NewNode("redis://" + url.QueryEscape(secret) + "@" + n.Addr())
		}),
	}
	var last *redlock.Redlock
	for name, nodes := range right {
		r := newPatient(t, nodes)
		for i := range 10 {
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err, name)
			require.NoError(t, l.Unlock(t.Context()), name)
			for _, v := range r.Stats().Nodes {
				require.NotContains(t, v.Node, "@", "%d: a name has no credentials", i)
			}
		}
		last = r
	}
	await(t, patience, "all nodes are connected: a server without a password refuses those who give one", func() bool {
		return !slices.ContainsFunc(last.Stats().Nodes, func(n redlock.NodeStats) bool { return !n.Up })
	})
	// Without the setting the cluster can look for itself, too.
	for _, n := range c.Nodes {
		conn := adminConn(t, n, redis.DialPassword(secret))
		_, err := conn.Do("CONFIG", "SET", "requirepass", "")
		require.NoError(t, err)
	}
	await(t, patience, "all nodes have a lock", func() bool { return lockEverywhere(t, c, last, "a") })
	awaitNoKeys(t, c)
}

// leastPrivilege is what a user of a server with access control needs at least:
//
//	ACL SETUSER locker on >password ~locks:* +evalsha +eval +script|load +get +set +del +pttl +pexpire
//
// with WithPrefix("locks:"). A database other than 0 also takes +select. A PING that is not permitted is answered, too, and
// the answer is all that it is for; +ping keeps the server's ACL LOG clean.
var leastPrivilege = []string{"+evalsha", "+eval", "+script|load", "+get", "+set", "+del", "+pttl", "+pexpire"}

// everyOperation makes the library use every command that it knows.
func everyOperation(t *testing.T, n *testcluster.Node, r *redlock.Redlock) {
	t.Helper()
	l := tryLock(t, r, []string{"a", "b"}, time.Minute)
	// Refusals and inspections tell how long the holder's keys live.
	refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute)
	in, err := r.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, in.Nodes[0].Err)
	require.NoError(t, l.Extend(t.Context(), 2*time.Minute))
	release(t, l)
	require.NoError(t, n.FlushScripts()) // They come with the request then.
	cycle(t, r, "a", time.Minute)
	await(t, patience, "a request of unknown outcome is settled on a new connection", func() bool { return loseAReply(t, n, r) })
}

// loseAReply has a lock request be carried out, its reply be lost, and the connection break, and waits until that is
// settled. Its release may be asked for before or after the connection has broken. On a busy machine it may not have been
// sent in time.
func loseAReply(t *testing.T, n *testcluster.Node, r *redlock.Redlock) (sent bool) {
	t.Helper()
	before := r.Stats().Nodes[0]
	n.Proxy().DropReplies(true)
	refused(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute, redlock.WithNodeTimeout(50*time.Millisecond))
	n.Proxy().Refuse(true)
	n.Proxy().Reset()
	n.Proxy().DropReplies(false)
	n.Proxy().Refuse(false)
	await(t, patience, "the lock of unknown outcome is settled", func() bool {
		s := r.Stats().Nodes[0]
		sent = s.Unknown > before.Unknown
		return s.Up && s.Connects > before.Connects && len(keys(t, n)) == 0
	})
	return sent
}

// That every right is needed, redlockcheck.TestRightsAreThoseOfTheScripts says.
func TestAuthOfAUserWithTheLeastPrivileges(t *testing.T) {
	t.Parallel()
	// Each user has a server of its own: another client that connects loads the scripts that were flushed.
	as := func(path string, rules ...string) (*testcluster.Node, *redlock.Redlock) {
		n := testcluster.RunServers(t, 1, testcluster.WithProxy()).Nodes[0]
		setUser(t, n, "locker", slices.Concat(leastPrivilege, []string{"~locks:*"}, rules)...)
		node := redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.Addr() + path)
		return n, newPatient(t, []redlock.Node{node}, redlock.WithPrefix("locks:"))
	}
	for path, rule := range map[string]string{"": "+ping", "/0": "+ping", "/7": "+select"} {
		n, r := as(path, rule)
		everyOperation(t, n, r)
	}
	_, r := as("/7")
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute), "select")
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
			conn := adminConn(t, n)
			_, err := conn.Do("CLIENT", "KILL", "USER", "app")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
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
	assert.Greater(t, connects(r), int64(5))
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
		"as it is": func(c redis.Conn) (redis.Conn, error) { return c, nil },
		"used": func(c redis.Conn) (redis.Conn, error) {
			_, err := c.Do("CLIENT", "SETNAME", "locks")
			return c, err
		},
		"used piece by piece": func(c redis.Conn) (redis.Conn, error) {
			if err := c.Send("ECHO", "mine"); err != nil {
				return nil, err
			}
			if err := c.Flush(); err != nil {
				return nil, err
			}
			reply, err := redis.String(c.Receive())
			assert.Equal(t, "mine", reply)
			return c, err
		},
		"wrapped": func(c redis.Conn) (redis.Conn, error) { return wrappedConn{c.(fullConn)}, nil },
	} {
		t.Run(name, func(t *testing.T) {
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
				l := tryLock(t, r, []string{"a"}, time.Minute)
				require.NoError(t, l.Unlock(t.Context()))
			}
			_, err := newPatient(t, nodes("/99")).TryLock(t.Context(), []string{"a"}, time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "there is no such database")
			require.ErrorContains(t, err, "DB index is out of range")
		})
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

// A real server loads what the documents show, however it is given to it, and the user that it
// makes may do all that the library does. Check has an answer for it: it does not end in "unknown".
func TestACLOfTheDocumentsIsLoaded(t *testing.T) {
	t.Parallel()
	line := "user locker on >secret " + documentedRights(t)
	file := filepath.Join(t.TempDir(), "acl")
	require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
	for name, option := range map[string]testcluster.ServerOption{
		"users.acl":   testcluster.WithArgs("--aclfile", file),
		"redis.conf":  testcluster.WithArgs("--include", file),
		"ACL SETUSER": testcluster.WithArgs(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3, testcluster.WithArgs("--appendonly", "yes", "--appendfsync", "always"), option)
			if name == "ACL SETUSER" {
				for _, n := range c.Nodes {
					admin(t, n, "ACL", redis.Args{"SETUSER"}.AddFlat(strings.Fields(line)[1:])...)
				}
			}
			nodes := nodesBy(c, func(n *testcluster.Node) redlock.Node {
				return redlock.NewNode("redis://locker:secret@" + n.DirectAddr())
			})
			requireLocks(t, nodes)
			prefix := redlock.WithPrefix("locks:")
			report := checked(t, nodes, prefix, redlock.WithFencing(), redlock.WithQuarantine(time.Minute))
			assert.Equal(t, redlockcheck.OK, report.Verdict())
			for _, n := range c.Nodes { // Without quarantine it says so, as it finds that others have it.
				require.NoError(t, n.Flush())
			}
			report = checked(t, nodes, prefix)
			assert.Equal(t, redlockcheck.Warning, report.Verdict())
			for _, f := range report.Findings {
				amiss := f.Check == "persistence" || f.Check == "default-user" // The user may not see what they are about.
				assert.Equal(t, amiss, f.Verdict != redlockcheck.OK, "%+v", f)
			}
			report = checked(t, nodes)
			assert.Equal(t, redlockcheck.Unfit, report.Verdict())
			i := slices.IndexFunc(report.Findings, func(f redlockcheck.Finding) bool { return f.Check == "acl" })
			require.GreaterOrEqual(t, i, 0)
			f := report.Findings[i]
			assert.Contains(t, f.Text, "the user may not use keys without a prefix")
			assert.Contains(t, f.Advice, "Give the prefix")
			assert.NotContains(t, f.Advice, "~*")
		})
	}
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
	got := make(chan *redlock.Lock, 1)
	go func() {
		// It would sleep for longer than the test, if it were not told.
		second, err := b.Lock(t.Context(), []string{"x"}, time.Minute, redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
		assert.NoError(t, err)
		got <- second
	}()
	await(t, patience, "it waits", func() bool { return b.Stats().Waiting == 1 && b.Stats().Nodes[0].Listens })
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
	admin, err := redis.Dial("tcp", full.Addr())
	require.NoError(t, err)
	defer func() { _ = admin.Close() }()
	_, err = admin.Do("CONFIG", "SET", "maxclients", 1)
	require.NoError(t, err)
	servers := map[string]string{"max number of clients": full.Addr()}
	if host := outerAddress(t); host != "" {
		guarded := testcluster.RunServers(t, 1, testcluster.WithArgs("--bind", "0.0.0.0", "--protected-mode", "yes")).Nodes[0]
		_, port, err := net.SplitHostPort(guarded.Addr())
		require.NoError(t, err)
		servers["in protected mode"] = net.JoinHostPort(host, port)
	}
	for says, addr := range servers {
		for range 10 { // Its words and the end of the connection race with what it is sent.
			r := newPatient(t, []redlock.Node{redlock.NewNode(addr)})
			require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute), says)
		}
		report, err := redlockcheck.Run(t.Context(), []redlock.Node{redlock.NewNode(addr)})
		require.NoError(t, err)
		require.Contains(t, report.String(), says)
		require.Contains(t, report.String(), "It runs: see what it says")
		require.NotContains(t, report.String(), "broken pipe")
	}
}

// outerAddress is an address of this machine by which a server takes it for another one; empty if there is none.
func outerAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Log("skipped: protected mode, as this machine has only loopback addresses")
	return ""
}

// A user that may read the counters but not write them gets no lock, and no key is left.
func TestFenceCountersThatMayNotBeWritten(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesBy(c, func(n *testcluster.Node) redlock.Node {
		admin(t, n, "ACL", "SETUSER", "reader", "on", ">pw", "resetkeys", "+@all", "~x", "~*:s:*", "%R~*:f:*")
		return redlock.NewNode("redis://reader:pw@" + n.Addr())
	}))
	for _, opts := range [][]redlock.Option{{redlock.WithRetryCount(0)}, {redlock.WithRetryCount(1), redlock.WithRetryDelay(time.Millisecond)}} {
		_, err := r.Lock(t.Context(), []string{"x"}, time.Hour, append(opts, redlock.WithFencing())...)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "NOPERM")
		awaitNoKeys(t, c) // A node that was not waited for may be late.
	}
}

// usersOf returns the nodes of a cluster for a user with these rights.
func usersOf(t *testing.T, c *testcluster.Cluster, rights string) []redlock.Node {
	t.Helper()
	return nodesBy(c, func(n *testcluster.Node) redlock.Node {
		setUser(t, n, "u", append([]string{"resetchannels"}, strings.Fields(rights)...)...)
		return redlock.NewNode(n.DirectAddr(), redis.DialUsername("u"), redis.DialPassword(secret))
	})
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
