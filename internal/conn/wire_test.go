package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
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

// A watchedConn counts writes and deadlines for writes, and notes for how long its kernel goes on to deliver.
type watchedConn struct {
	net.Conn

	writes, deadlines, linger int
}

func (c *watchedConn) Write(b []byte) (int, error) {
	c.writes++
	return c.Conn.Write(b)
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
		require.NoError(t, w.Flush())
		assert.Positive(t, watched.deadlines)
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

// Commands go together, and the space that a large one takes is not kept.
func TestSocketWritesABatchAtOnce(t *testing.T) {
	near, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	watched := &watchedConn{Conn: near}
	w := wireOver(t, watched, nil)
	sends := func(n int) int {
		watched.writes = 0
		for range n {
			require.NoError(t, w.Send("ECHO", "0123456789"))
		}
		require.NoError(t, w.Flush())
		return watched.writes
	}
	assert.Equal(t, 1, sends(1000))
	assert.InDelta(t, 10000*34/maxHeld, sends(10000), 1, "more than is held back")

	require.NoError(t, w.Send("ECHO", strings.Repeat("x", 512<<10)))
	require.NoError(t, w.Flush())
	assert.LessOrEqual(t, cap(w.link.(*socketLink).held), 2*maxHeld)
	w.Abort()
	require.Error(t, w.Err())
	w.GiveBack()
}

type poolFunc func(ctx context.Context) (redis.Conn, error)

func (f poolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }

func TestStepsGoTogetherAndAreCheckedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		n := testcluster.RunBubble(t, 1).Nodes[0]
		w, err := NewSource(n.Pool()).Borrow(t.Context())
		require.NoError(t, err)
		defer w.GiveBack()
		require.NoError(t, w.Err())
		require.NoError(t, w.Abortable(t.Context()))
		require.NoError(t, n.Slow(trip/2, trip/2))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var order []string
		step := func(name string, failure error, command ...any) Step {
			return Step{command, func(a Answer) error {
				order = append(order, name)
				text, failed := a.Text()
				if name == "unknown" {
					assert.True(t, IsReply(failed))
					assert.Equal(t, "ERR", ErrorCode(failed))
				} else if assert.NoError(t, failed) {
					assert.Equal(t, name, text)
				}
				return failure
			}}
		}
		wrong, start := errors.New("wrong"), time.Now()
		err = w.Run(ctx, []Step{
			step("OK", nil, "SET", "a", "b"), step("unknown", nil, "NONSENSE"), step("b", wrong, "GET", "a"), step("none", nil, "GET", "a"),
		})
		require.ErrorIs(t, err, wrong)
		assert.Equal(t, []string{"OK", "unknown", "b"}, order)
		assert.Equal(t, trip, time.Since(start), "one round trip")
		w.Abort()
		_, err = w.Exchange(ctx, [][]any{{"PING"}})
		require.Error(t, err)
	})
}

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

// A look finds what nobody asked for, and the end, at once, and takes nothing.
func TestLook(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	for name, act := range map[string]struct {
		do   func(far *net.TCPConn) error
		want error
	}{
		"words": {func(far *net.TCPConn) error { _, err := far.Write([]byte("+OK\r\n")); return err }, errNews},
		"end":   {func(far *net.TCPConn) error { return far.Close() }, io.EOF},
		"reset": {func(far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			if !canLook {
				t.Skip("not on " + runtime.GOOS)
			}
			near, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			far, err := ln.Accept()
			require.NoError(t, err)
			w := wireOver(t, near, nil)
			require.True(t, w.MayInterrupt())
			require.NoError(t, w.Look())
			require.NoError(t, act.do(far.(*net.TCPConn)))
			for err = w.Look(); err == nil; err = w.Look() { // It takes a moment.
				runtime.Gosched()
			}
			require.ErrorIs(t, err, act.want)
			if name == "words" {
				reply, err := w.Receive(0)
				require.NoError(t, err)
				assert.Equal(t, "OK", reply)
				require.NoError(t, w.Look())
				assert.Zero(t, testing.AllocsPerRun(10, func() { _ = w.Look() }))
			}
			w.Abort()
			require.Error(t, w.Look())
		})
	}
}

// Only what the kernel buffers, and what is read past redigo, may be interrupted.
func TestMayInterrupt(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	assert.False(t, wireOver(t, near, nil).MayInterrupt())
	end, far := testcluster.Pipe()
	defer func() { _ = far.Close() }()
	assert.False(t, newWire(redis.NewConn(end, 0, 0)).MayInterrupt(), "a pool's")
}
