package redlock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What may come late is released again and again: 20 ms after the answer to its release, then 40, 80 and
// so on.

// trip is what a round trip takes where it takes any time.
const trip = 2 * time.Millisecond

// breakLate has an attempt on "a", for a ttl, fail, as all connections break with its lock requests on their way. They
// reach the nodes so late after that, which is when it returns.
func breakLate(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, ttl, late time.Duration) (broke time.Time) {
	t.Helper()
	warm(t, r)
	synctest.Wait() // The last node is connected, too.
	require.NoError(t, c.Slow(trip/2, trip/2))
	failed := meanwhile(func() error { return lockError(r.TryLock(t.Context(), []string{"a"}, ttl)) })
	synctest.Wait()
	for _, n := range c.Nodes {
		n.Proxy().LateBytes(late, late)
		n.Proxy().Reset()
	}
	require.ErrorIs(t, <-failed, redlock.ErrNoQuorum)
	return time.Now()
}

// requireLate checks that something has come late. On the last node the release of the attempt, which had
// failed by the others, may have been sent before the connection broke: then it comes late, too.
func requireLate(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	late := 0
	for _, n := range c.Nodes {
		if _, is := keys(t, n)["a"]; is {
			late++
		}
	}
	require.GreaterOrEqual(t, late, len(c.Nodes)-1)
}

// What comes late by t is gone by 2 t + 20 ms and two round trips; for a minute, also where its ttl is shorter. Who waits
// for it in another process is told, also though the attempt's own release, which has failed, tells nobody.
func TestRepeatReleasesWhatComesLate(t *testing.T) {
	for _, test := range []struct{ ttl, late time.Duration }{
		{time.Hour, 10 * time.Millisecond},
		{time.Hour, 100 * time.Millisecond},
		{time.Hour, time.Second},
		{time.Hour, 10 * time.Second},
		{time.Hour, 59 * time.Second},
		{30 * time.Second, 59 * time.Second},
	} {
		runInBubble(t, fmt.Sprint(test.late, ", ttl ", test.ttl), 3, func(t *testing.T, c *testcluster.Cluster) {
			late := test.late
			r, other := newRedlock(t, c), newWarm(t, c)
			broke := breakLate(t, c, r, test.ttl, late)
			time.Sleep(late)
			synctest.Wait()
			requireLate(t, c)
			l := waitLock(t, other, []string{"a"}, ttl, every(time.Hour, -1)...)
			// It is found and released, and the next one is told and asks.
			assert.LessOrEqual(t, time.Since(broke), 2*late+20*time.Millisecond+2*trip+2*trip)
			assert.Less(t, time.Since(broke), late+test.ttl-time.Second, "it would not end by itself")
			require.NoError(t, l.Unlock(t.Context()))
			requireReleased(t, c)
		})
	}
}

// An extension that comes late finds the keys that the release has left, and gives them a whole ttl. If it comes
// late by t, that is undone by 2 t. The min hold is not cut short.
func TestRepeatUndoesWhatALateExtensionDoes(t *testing.T) {
	for _, late := range []time.Duration{10 * time.Millisecond, 500 * time.Millisecond, 1900 * time.Millisecond, 40 * time.Minute} {
		for name, opts := range map[string][]redlock.Option{"": nil, ", with a fence": {redlock.WithFencing()}} {
			t.Run(late.String()+name, func(t *testing.T) {
				testLateExtension(t, late, opts, func(t *testing.T, l *redlock.Lock) { go func() { _ = l.Extend(t.Context(), time.Hour) }() })
			})
		}
	}
	t.Run("of a KeepAlive", func(t *testing.T) {
		testLateExtension(t, 500*time.Millisecond, []redlock.Option{redlock.WithStopTime(time.Hour - 40*time.Second)}, func(t *testing.T, l *redlock.Lock) {
			l.KeepAlive(t.Context()) // Its term is 4 s.
		})
	})
}

// testLateExtension has an extension be so late that extend makes.
func testLateExtension(t *testing.T, late time.Duration, opts []redlock.Option, extend func(t *testing.T, l *redlock.Lock)) {
	t.Helper()
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newWarm(t, c)
		minHold, start := late+2*time.Second, time.Now()
		l := lockOnAll(t, r, []string{"a"}, time.Hour, append(opts, redlock.WithMinHold(minHold))...)
		require.NoError(t, c.Slow(50*time.Millisecond, 50*time.Millisecond))
		extend(t, l)
		for r.Stats().Nodes[0].Backlog == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.NoError(t, c.Slow(0, 0)) // What is on its way keeps its delay, and no new connection gets one.
		for i, n := range c.Nodes {
			require.Equal(t, 1, r.Stats().Nodes[i].Backlog, "the extension is under way")
			n.Proxy().LateBytes(late, late)
			n.Proxy().Reset()
		}
		synctest.Wait() // Each node has a connection again.
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		released, keep := time.Now(), start.Add(minHold)
		for _, n := range c.Nodes {
			assert.WithinDuration(t, keep, time.Now().Add(keys(t, n)["a"].TTL), time.Millisecond)
		}
		time.Sleep(late)
		synctest.Wait()
		for _, n := range c.Nodes {
			require.Greater(t, keys(t, n)["a"].TTL, 59*time.Minute, "it has come")
		}
		w := startLock(t, other, []string{"a"}, every(2*time.Hour, -1)...)
		time.Sleep(time.Until(keep.Add(-time.Millisecond)))
		assert.Equal(t, 3, holders(t, c, l))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.LessOrEqual(t, w.at.Sub(released), max(keep.Sub(released), 2*late+20*time.Millisecond)+10*time.Millisecond)
		requireReleased(t, c)
		if late < time.Minute {
			return
		}
		time.Sleep(2 * time.Hour)
		requireNoKeys(t, c)
		for _, n := range r.Stats().Nodes {
			assert.Zero(t, n.Repeats)
		}
	})
}

// The same where something on the way has answered the extension with an error. What the server itself has refused
// cannot come late; and without a min hold an extension that does finds no key. A release that comes late leaves the
// keys for no longer than they live anyway.
func TestRepeatReckonsWithALateExtension(t *testing.T) {
	for name, test := range map[string]struct {
		answer  string
		opts    []redlock.Option
		repeats int
	}{
		"an error of something on the way": {"ERR upstream timeout", []redlock.Option{redlock.WithMinHold(30 * time.Second)}, 1},
		"a refusal":                        {"BUSY x", []redlock.Option{redlock.WithMinHold(30 * time.Second)}, 0},
		"no min hold":                      {"ERR upstream timeout", nil, 0},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			rn, r := record(t, c)
			start := time.Now()
			l := lockOnAll(t, r, []string{"a"}, time.Hour, test.opts...)
			require.NoError(t, c.Nodes[0].SetError(test.answer))
			require.NoError(t, l.Extend(t.Context(), time.Hour))
			synctest.Wait()
			require.NoError(t, c.Nodes[0].SetError(""))
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			require.Equal(t, test.repeats, r.Stats().Nodes[0].Repeats)
			if test.repeats == 0 {
				return
			}
			time.Sleep(time.Second)
			rn.deliver(t, rn.request(t, "EVALSHA"))
			require.Greater(t, keys(t, c.Nodes[0])["a"].TTL, 59*time.Minute)
			time.Sleep(20 * time.Second)
			rn.deliver(t, slices.DeleteFunc(rn.requests(0), func(q string) bool { return !strings.Contains(q, redlock.UnlockScript.Hash.(string)) })...)
			time.Sleep(time.Until(start.Add(30*time.Second - time.Millisecond)))
			assert.Equal(t, 3, holders(t, c, l))
			time.Sleep(2 * time.Millisecond)
			requireReleased(t, c)
		})
	}
}

// Where EVAL is not allowed at all, each repetition is a release, and there are no more of them.
func TestRepeatsEndWhereNoLookIsAllowed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newRedlock(t, c)
		broke := breakLate(t, c, r, time.Hour, 20*time.Second)
		var looks atomic.Int64
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			refusal := ""
			if cmd == "EVAL" {
				looks.Add(1)
				refusal = "ERR unknown command 'EVAL'"
			}
			assert.NoError(t, n.SetError(refusal))
		}))
		time.Sleep(time.Until(broke.Add(20 * time.Second)))
		requireLate(t, c)
		time.Sleep(20*time.Second + 100*time.Millisecond)
		requireNoKeys(t, c)
		time.Sleep(3 * time.Hour) // Its ttl is an hour.
		assert.LessOrEqual(t, looks.Load(), int64(20))
		assert.Zero(t, r.Stats().Nodes[0].Repeats)
		assert.Zero(t, r.Stats().Nodes[0].PendingReleases)
	})
}

// A recordingNet keeps a copy of what a client sends to a node.
type recordingNet struct {
	node *testcluster.Node

	mu   sync.Mutex
	sent [][]byte // by connection
}

type recordingConn struct {
	net.Conn

	from  *recordingNet
	index int
}

// record returns a Redlock that reaches the first of a cluster's nodes through the net. At the
// end of the test its Close must succeed.
func record(t *testing.T, c *testcluster.Cluster) (*recordingNet, *redlock.Redlock) {
	t.Helper()
	rn := &recordingNet{node: c.Nodes[0]}
	nodes := nodesOf(c)
	nodes[0].Pool = dialerOf(c.Nodes[0], func(c net.Conn) net.Conn {
		rn.mu.Lock()
		defer rn.mu.Unlock()
		rn.sent = append(rn.sent, nil)
		return &recordingConn{c, rn, len(rn.sent) - 1}
	})
	r := newOver(t, nodes)
	t.Cleanup(func() { assert.NoError(t, r.Close(context.Background())) })
	return rn, r
}

func (c *recordingConn) Write(b []byte) (int, error) {
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	c.from.sent[c.index] = append(c.from.sent[c.index], b...)
	return c.Conn.Write(b)
}

// requests returns what was sent on a connection, request by request.
func (rn *recordingNet) requests(i int) (all []string) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	sent := string(rn.sent[i])
	at := regexp.MustCompile(`\*\d+\r\n\$\d+\r\n(SET|PTTL|EVAL|EVALSHA|SCRIPT|PING)\r\n`).FindAllStringIndex(sent, -1)
	for k := range at {
		end := len(sent)
		if k+1 < len(at) {
			end = at[k+1][0]
		}
		all = append(all, sent[at[k][0]:end])
	}
	return all
}

// deliver has the node carry out requests that were sent long ago, or a second time.
func (rn *recordingNet) deliver(t *testing.T, requests ...string) {
	t.Helper()
	conn, err := rn.node.Dial(t.Context())
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for _, q := range requests {
		_, err = conn.Write([]byte(q))
		require.NoError(t, err)
	}
	synctest.Wait()
	require.NoError(t, conn.Close())
}

func isA(verb string) func(request string) bool {
	return func(q string) bool { return strings.Contains(q, "\r\n"+verb+"\r\n") }
}

// A held lock's grant on one node is not heard, and the connection breaks; an extension and a repair
// make the node a vote that counts, and then another node's key is lost by a partition that outlasts
// it. What is delivered now of all that was sent before must not take the vote away.
func testLateRequests(t *testing.T, wait time.Duration) {
	t.Helper()
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		rn, r := record(t, c)
		warm(t, r)
		proxy := c.Nodes[0].Proxy()
		proxy.DropReplies(true)
		l := lockOnAll(t, r, []string{"x"}, ttl)
		proxy.Reset()
		proxy.DropReplies(false)
		ctx := l.KeepAlive(t.Context())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, holders(t, c, l))
		time.Sleep(wait)
		require.NoError(t, c.Nodes[2].Stop())
		time.Sleep(15 * time.Second)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, c.Nodes[2].Restart(true))
		rn.mu.Lock()
		n := len(rn.sent)
		rn.mu.Unlock()
		require.GreaterOrEqual(t, n, 2)
		for i := range n {
			for _, q := range rn.requests(i) {
				rn.deliver(t, q)
				require.GreaterOrEqual(t, holders(t, c, l), 2, "taken away by %q", q)
			}
		}
		refused(t, redlock.ErrTaken, newRedlock(t, c), []string{"x"}, ttl)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Err())
	})
}

func TestUnknownRequestThatIsLateTakesNoVoteAway(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testLateRequests(t, 0) })
	t.Run("after more than a minute", func(t *testing.T) { testLateRequests(t, 75*time.Second) })
}

// request is what was sent about "a" by that command on the first connection.
func (rn *recordingNet) request(t *testing.T, verb string) string {
	t.Helper()
	for _, q := range rn.requests(0) {
		if isA(verb)(q) && strings.Contains(q, "\r\na\r\n") {
			return q
		}
	}
	t.Fatalf("no %s was sent", verb)
	return ""
}

// A node that is away is owed a release for as long as the longest ttl that its keys may have been given.
func TestOwedReleaseIsKeptForTheLongestTTL(t *testing.T) {
	for name, test := range map[string]struct{ lock, extend time.Duration }{
		"of the lock":       {10 * time.Minute, time.Minute},
		"of an extension":   {10 * time.Second, 10 * time.Minute},
		"of an earlier one": {10 * time.Second, 10 * time.Minute},
	} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			l := lockOnAll(t, r, []string{"a"}, test.lock)
			require.NoError(t, l.Extend(t.Context(), test.extend))
			synctest.Wait()
			if name == "of an earlier one" {
				require.NoError(t, l.Extend(t.Context(), time.Second))
				synctest.Wait()
			}
			require.NoError(t, c.Nodes[2].Stop())
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(8 * time.Minute)
			require.Equal(t, l.Token(), keys(t, c.Nodes[2])["a"].Value)
			require.NoError(t, c.Nodes[2].Restart(true))
			time.Sleep(2 * time.Second)
			requireNoKeys(t, c)
		})
	}
}

// A request that runs again sets only the keys that are missing: an extension may have
// been counted since on the others.
func TestUnknownLockRequestThatRunsAgainShortensNoLife(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			rn, r := record(t, c)
			l := tryLock(t, r, []string{"a", "b"}, ttl, opts...)
			require.NoError(t, l.Extend(t.Context(), time.Hour))
			require.NoError(t, c.Nodes[0].Del("b"))
			all := slices.DeleteFunc(rn.requests(0), isA("SCRIPT"))
			require.Len(t, all, 2)
			rn.deliver(t, all[0])
			stored := keys(t, c.Nodes[0])
			assert.Equal(t, time.Hour, stored["a"].TTL)
			assert.Equal(t, ttl, stored["b"].TTL)
			require.NoError(t, l.Unlock(t.Context()))
			requireNoKeys(t, c)
		})
	}
}
