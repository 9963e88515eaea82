package conn

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
