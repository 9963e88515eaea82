package redlock

import (
	"bytes"
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

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A recordingNet keeps a copy of what a client sends to a node. It may keep the first
// EVAL, with which a new connection settles what the broken one has left, instead of
// delivering it.
type recordingNet struct {
	node *testcluster.Node

	mu    sync.Mutex
	steal bool
	sent  [][]byte // by connection
}

type recordingConn struct {
	net.Conn

	from  *recordingNet
	index int
}

// record returns nodes of which the first is reached through the net.
func record(c *testcluster.Cluster, steal bool) (*recordingNet, []Node) {
	rn := &recordingNet{node: c.Nodes[0], steal: steal}
	nodes := nodesOf(c)
	nodes[0].Pool = &dialer{
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := c.Nodes[0].Dial(ctx)
			if err != nil {
				return nil, err
			}
			rn.mu.Lock()
			defer rn.mu.Unlock()
			rn.sent = append(rn.sent, nil)
			return &recordingConn{conn, rn, len(rn.sent) - 1}, nil
		},
		network: "tcp", address: c.Nodes[0].Addr(),
	}
	return rn, nodes
}

func (c *recordingConn) Write(b []byte) (int, error) {
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	c.from.sent[c.index] = append(c.from.sent[c.index], b...)
	if c.from.steal && bytes.Contains(b, []byte("\r\nEVAL\r\n")) {
		c.from.steal = false
		_ = c.Conn.Close()
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// requests returns what was sent on a connection, request by request.
func (rn *recordingNet) requests(i int) (all []string) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	sent := string(rn.sent[i])
	at := regexp.MustCompile(`\*\d+\r\n\$\d+\r\n(EVAL|EVALSHA|SCRIPT|PING)\r\n`).FindAllStringIndex(sent, -1)
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

// A held lock's grant on one node is not heard, and the connection breaks; the next one
// settles that, an extension and a repair make the node a vote that counts, and then
// another node's key is lost by a partition that outlasts it. What is delivered now of
// all that was sent before must not take the vote away.
func testLateSettlement(t *testing.T, steal bool, wait time.Duration) {
	t.Helper()
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		rn, nodes := record(c, steal)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close(context.Background())) }()
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
		require.False(t, rn.steal, "something was settled")
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
		require.ErrorIs(t, err, ErrTaken)
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Err())
	})
}

func TestALateSettlementTakesNoVoteAway(t *testing.T) {
	t.Run("within the tombstone's life", func(t *testing.T) { testLateSettlement(t, true, 10*time.Second) })
	t.Run("after it", func(t *testing.T) { testLateSettlement(t, true, 75*time.Second) })
	t.Run("twice", func(t *testing.T) { testLateSettlement(t, false, 0) })
	t.Run("twice and after it", func(t *testing.T) { testLateSettlement(t, false, 75*time.Second) })
}

// A tombstone that comes late must not replace a newer one: the lock request that
// the newer one refuses would leave a key.
func TestALateTombstoneLetsNothingIn(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		rn, nodes := record(c, false)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close(context.Background())) }()
		warm(t, r)
		breakALock(t, r, c.Nodes[0], time.Minute, 0)
		time.Sleep(3 * time.Second)
		breakALock(t, r, c.Nodes[0], time.Minute, 0)
		time.Sleep(3 * time.Second)
		requireNoKeys(t, c)
		second := rn.requests(1)
		require.True(t, isA("EVAL")(second[0]), "the tombstone comes first")
		scripts := slices.DeleteFunc(second[1:], isA("SCRIPT"))
		require.GreaterOrEqual(t, len(scripts), 2, "the first release, and the second lock")
		rn.deliver(t, second[0], scripts[1])
		requireNoKeys(t, c)
	})
}

// breakALock makes an attempt of which the node's answer is lost, gives it up, and
// breaks the connection, so that nobody gets through for some time.
func breakALock(t *testing.T, r *Redlock, n *testcluster.Node, ttl, away time.Duration) {
	t.Helper()
	n.Proxy().DropReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.TryLock(ctx, []string{"a"}, ttl)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	n.Proxy().Refuse(true)
	n.Proxy().Reset()
	n.Proxy().DropReplies(false)
	time.Sleep(away)
	n.Proxy().Refuse(false)
}
