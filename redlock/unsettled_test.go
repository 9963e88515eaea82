package redlock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A recordingNet keeps a copy of what a client sends to a node.
type recordingNet struct {
	node *testcluster.Node

	mu   sync.Mutex
	cut  bool     // new connections fail
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
	nodes[0].Pool = &conn.Dialer{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			rn.mu.Lock()
			defer rn.mu.Unlock()
			if rn.cut {
				return nil, errors.New("no route to host")
			}
			conn, err := c.Nodes[0].Dial(ctx)
			if err != nil {
				return nil, err
			}
			rn.sent = append(rn.sent, nil)
			return &recordingConn{conn, rn, len(rn.sent) - 1}, nil
		},
		Network: "tcp", Address: c.Nodes[0].Addr(),
	}
	r, err := redlock.New(nodes)
	require.NoError(t, err)
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
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
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
		_, err = newRedlock(t, c).TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Err())
	})
}

func TestUnsettledRequestThatIsLateTakesNoVoteAway(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testLateRequests(t, 0) })
	t.Run("after more than a minute", func(t *testing.T) { testLateRequests(t, 75*time.Second) })
}

// breakALock makes an attempt of which the node's answer is lost, gives it up, and
// breaks the connection, so that the client does not get through for some time.
func (rn *recordingNet) breakALock(t *testing.T, r *redlock.Redlock, ttl, away time.Duration) {
	t.Helper()
	rn.node.Proxy().DropReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.TryLock(ctx, []string{"a"}, ttl)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	rn.setCut(true)
	rn.node.Proxy().Reset()
	rn.node.Proxy().DropReplies(false)
	time.Sleep(away)
	rn.setCut(false)
}

func (rn *recordingNet) setCut(on bool) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	rn.cut = on
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

// Within a minute a lock request may also arrive while its client cannot get through,
// after the ttl. Then it is the release's turn.
func TestUnsettledReleaseIsOwedForAMinute(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		rn, r := record(t, c)
		warm(t, r)
		time.AfterFunc(25*time.Second, func() {
			assert.Empty(t, keys(t, c.Nodes[0]))
			rn.deliver(t, rn.request(t, "SET"))
			assert.NotEmpty(t, keys(t, c.Nodes[0]))
		})
		rn.breakALock(t, r, 10*time.Second, 30*time.Second)
		time.Sleep(2 * time.Second)
		requireNoKeys(t, c)
	})
}

// A request that runs again sets only the keys that are missing: an extension may have
// been counted since on the others.
func TestUnsettledLockRequestThatRunsAgainShortensNoLife(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			rn, r := record(t, c)
			l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl, opts...)
			require.NoError(t, err)
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

// A node whose refusal was heard may have the key all the same, if the lock request
// runs a second time. When an extension finds it there, it is to be released.
func TestUnsettledKeyThatAnExtensionHasFoundIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		rn, r := record(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Set("a", "another", time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		rn.deliver(t, rn.request(t, "SET"))
		require.NoError(t, l.Extend(t.Context(), time.Hour))
		synctest.Wait()
		require.Equal(t, 3, holders(t, c, l))
		// The node is away when the lock is released, and owed the release.
		require.NoError(t, c.Nodes[0].Stop())
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(5 * time.Second)
		requireNoKeys(t, c)
	})
}

// An extension that settles late asks for a repair of a node that has been repaired
// since. Such a repair, and what becomes of it, must not harm a key that counts.
func TestUnsettledRepairOnOldNewsWhileTheNodeIsUp(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(5*time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, 30*time.Second)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Nodes[3].Del("a"))
		require.NoError(t, c.Nodes[4].Hang())
		require.NoError(t, l.Extend(t.Context(), 30*time.Second)) // Settles at 7 s.
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 30*time.Second)) // Settles at 9 s.
		time.Sleep(3*time.Second + 500*time.Millisecond)
		require.Equal(t, 5, holders(t, c, l), "the first one's repair")
		require.NoError(t, c.Nodes[2].Hang())
		require.NoError(t, l.Extend(t.Context(), 30*time.Second)) // Its quorum is 0, 1 and 3.
		c.Nodes[3].Proxy().DropReplies(true)
		time.Sleep(1700 * time.Millisecond) // The second one's repair, whose answer is lost.
		c.Nodes[3].Proxy().Reset()
		c.Nodes[3].Proxy().DropReplies(false)
		time.Sleep(200 * time.Millisecond)
		for _, i := range []int{2, 4} { // A minority loses its data.
			require.NoError(t, c.Nodes[i].Stop())
			require.NoError(t, c.Nodes[i].Restart(false))
			require.NoError(t, c.Nodes[i].Resume())
		}
		require.Equal(t, 3, holders(t, c, l))
		_, err = newRedlock(t, c).TryLock(t.Context(), []string{"a"}, 30*time.Second)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.Err())
	})
}
