package conn

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// wireOver is a wire of a Dialer over one end of a pipe.
func wireOver(t *testing.T, end net.Conn, login [][]any, options ...redis.DialOption) *Wire {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) { return end, nil }
	w, err := NewSource(&Dialer{Dial: dial, Network: "tcp", Address: "node:1", Options: options, Login: login}).Borrow(t.Context())
	require.NoError(t, err)
	return w
}

// Nothing overtakes: neither the login, nor what is written because it is too long to be held back.
func TestWireWritesCommandsInTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	near, far := testcluster.Pipe()
	w := wireOver(t, near, [][]any{{"AUTH", "secret"}})
	want := redigoWrites(t, "AUTH", []any{"secret"})
	send := func(arg any) {
		require.NoError(t, w.Send("ECHO", arg))
		want += redigoWrites(t, "ECHO", []any{arg})
	}
	send("with the login")
	send(1)
	require.NoError(t, w.Flush())
	send("at once")
	require.NoError(t, w.Flush())
	send(2)
	send(strings.Repeat("x", maxHeld+1))
	send(3)
	send(strings.Repeat("y", 3*maxHeld))
	send("at the end")
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flush(), "nothing is written twice")
	w.Abort()
	got, err := io.ReadAll(far)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	require.Equal(t, want, string(got))
}

// A writeDeadlines counts the deadlines for writes that are set.
type writeDeadlines struct {
	net.Conn

	set *atomic.Int64
}

func (c writeDeadlines) SetWriteDeadline(d time.Time) error {
	c.set.Add(1)
	return c.Conn.SetWriteDeadline(d)
}

// A dial option's limit for writes holds for what is written without redigo, too.
func TestWiresWritesHaveTheDeadlineOfTheDialOptions(t *testing.T) {
	t.Parallel()
	near, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	var set atomic.Int64
	w := wireOver(t, writeDeadlines{near, &set}, nil, redis.DialWriteTimeout(time.Minute))
	defer w.Abort()
	for range 3 {
		set.Store(0)
		require.NoError(t, w.Send("PING"))
		require.NoError(t, w.Flush())
		assert.Positive(t, set.Load())
	}
}

// When a reply came counts for all that is reckoned from it: how long a node took, and for
// how long it has been silent.
func TestWireCameIsWhenTheLastReplyCame(t *testing.T) {
	for name, pool := range map[string]func(n *testcluster.Node) Pool{
		"a pool's": func(n *testcluster.Node) Pool { return poolFunc(n.Pool().GetContext) },
		"a dialer's": func(n *testcluster.Node) Pool {
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) }
			return &Dialer{Dial: dial, Network: "tcp", Address: n.Addr()}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, err := NewSource(pool(testcluster.RunBubble(t, 1).Nodes[0])).Borrow(t.Context())
			require.NoError(t, err)
			defer w.GiveBack()
			for range 3 {
				require.NoError(t, w.SendAll([][]any{{"PING"}}))
				time.Sleep(time.Second)
				_, err = w.Receive(0)
				require.NoError(t, err)
				assert.Equal(t, time.Now(), w.Came(), name)
			}
		})
	}
}

// A lingerConn notes for how long its kernel goes on to deliver.
type lingerConn struct {
	net.Conn

	linger *atomic.Int64
}

func (c lingerConn) SetLinger(seconds int) error {
	c.linger.Store(int64(seconds))
	return nil
}

// What a connection that is given up has not delivered must not come late.
func TestAConnectionThatIsForgottenDeliversNothingMore(t *testing.T) {
	t.Parallel()
	near, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	var linger atomic.Int64
	linger.Store(-1)
	w := wireOver(t, lingerConn{near, &linger}, nil)
	w.Forget()
	assert.Zero(t, linger.Load())
	w.Abort()
}
