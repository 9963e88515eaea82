package conn

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
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

// A watchedConn counts deadlines for writes, and notes for how long its kernel goes on to deliver.
type watchedConn struct {
	net.Conn

	deadlines, linger int
}

func (c *watchedConn) SetWriteDeadline(d time.Time) error {
	c.deadlines++
	return c.Conn.SetWriteDeadline(d)
}

func (c *watchedConn) SetLinger(seconds int) error {
	c.linger = seconds
	return nil
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
	require.LessOrEqual(t, cap(w.link.(*socketLink).held), 2*maxHeld, "the space of a long one is not kept")
	w.Abort()
	got, err := io.ReadAll(far)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	require.Equal(t, want, string(got))
}

// A dial option's limit for writes holds for what is written without redigo, too.
func TestWiresWritesHaveTheDeadlineOfTheDialOptions(t *testing.T) {
	t.Parallel()
	near, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	watched := &watchedConn{Conn: near}
	w := wireOver(t, watched, nil, redis.DialWriteTimeout(time.Minute))
	defer w.Abort()
	for range 3 {
		watched.deadlines = 0
		require.NoError(t, w.Send("PING"))
		require.NoError(t, w.Send("PING"))
		require.NoError(t, w.Flush())
		assert.Equal(t, 1, watched.deadlines, "both are written at once")
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

// What a connection that is given up has not delivered must not come late.
func TestAConnectionThatIsForgottenDeliversNothingMore(t *testing.T) {
	t.Parallel()
	near, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	watched := &watchedConn{Conn: near, linger: -1}
	w := wireOver(t, watched, nil)
	w.Forget()
	assert.Zero(t, watched.linger)
	w.Abort()
}

type poolFunc func(ctx context.Context) (redis.Conn, error)

func (f poolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }

func TestIsWhole(t *testing.T) {
	for _, reply := range harmless {
		if len(reply) > 4096 {
			continue
		}
		for n := range reply {
			assert.False(t, isWhole([]byte(reply[:n])), "%q", reply[:n])
		}
		assert.True(t, isWhole([]byte(reply)), "%q", reply)
		assert.True(t, isWhole([]byte(reply+"$")), "%q", reply)
	}
	for _, malformed := range []string{"\r\n", "$x\r\n", "*x\r\n", "?\r\n", "$99999999999999999999\r\n"} {
		assert.True(t, isWhole([]byte(malformed)), "%q", malformed)
	}
	for _, large := range []string{"$9223372036854775807\r\n", "*9223372036854775807\r\n:1\r\n", "*2\r\n*9223372036854775807\r\n"} {
		assert.False(t, isWhole([]byte(large)), "%q", large)
	}
}

// What an Await that was interrupted has not received, the next Receive does, whole.
func TestAwaitLosesNothing(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", ":12\r\n", "$5\r\na\r\nb*\r\n", "*2\r\n:1\r\n$3\r\nabc\r\n"} {
		for n := range reply {
			synctest.Test(t, func(t *testing.T) {
				near, far := testcluster.Pipe()
				w := wireOver(t, near, nil)
				require.True(t, w.MayInterrupt())
				awaited := make(chan bool, 1)
				go func() { awaited <- w.Await() }()
				synctest.Wait()
				write(t, far, reply[:n])
				w.Interrupt(true)
				assert.False(t, <-awaited, "%q", reply[:n])
				assert.False(t, w.Await(), "still")
				w.Interrupt(false)
				write(t, far, reply[n:]+":7\r\n")
				_, err := w.Receive(0)
				require.NoError(t, err)
				require.True(t, w.HasUnread())
				require.True(t, w.Await())
				seven, err := w.Receive(0)
				require.NoError(t, err)
				assert.EqualValues(t, 7, seven)
				assert.False(t, w.HasUnread())
				w.Abort()
			})
		}
	}
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	_, err := io.WriteString(c, s)
	require.NoError(t, err)
}

// Why the connection ended is told to whoever receives next, too.
func TestAwaitKeepsWhyItEnded(t *testing.T) {
	near, far := testcluster.Pipe()
	require.NoError(t, far.Close())
	w := wireOver(t, &resetOnce{Conn: near}, nil)
	assert.False(t, w.Await())
	_, err := w.Receive(0)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// A resetOnce says once that it was reset, as the kernel does, and then that it is at its end.
type resetOnce struct {
	net.Conn

	said bool
}

func (c *resetOnce) Read(b []byte) (int, error) {
	if c.said {
		return c.Conn.Read(b)
	}
	c.said = true
	return 0, syscall.ECONNRESET
}

// A look finds what nobody asked for, and the end, and takes nothing.
func TestLook(t *testing.T) {
	if !canLook {
		t.Skip("not here")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	near, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	far, err := ln.Accept()
	require.NoError(t, err)
	w := wireOver(t, near, nil)
	defer w.Abort()
	finds := func(want error) {
		t.Helper()
		for err = w.Look(); err == nil; err = w.Look() { // It takes a moment.
			time.Sleep(time.Millisecond)
		}
		require.ErrorIs(t, err, want)
	}
	require.NoError(t, w.Look())
	write(t, far, "+OK\r\n")
	finds(errNews)
	reply, err := w.Receive(0)
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	require.NoError(t, far.Close())
	finds(io.EOF)
}
