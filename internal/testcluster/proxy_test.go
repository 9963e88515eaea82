package testcluster

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is an in-memory upstream that answers every chunk with itself and remembers what it received.
type echo struct {
	mu  sync.Mutex
	got string
}

func (e *echo) dial(context.Context) (net.Conn, error) {
	client, server := newPipe()
	go func() {
		defer func() { _ = server.Close() }()
		buf := make([]byte, 64)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			e.mu.Lock()
			e.got += string(buf[:n])
			e.mu.Unlock()
			_, _ = server.Write(buf[:n])
		}
	}()
	return client, nil
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

// withEcho has a bubble with a proxy in front of an echo server.
func withEcho(t *testing.T, fn func(t *testing.T, p *Proxy, e *echo)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		p := NewProxy(e.dial)
		t.Cleanup(p.Close)
		fn(t, p, e)
	})
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := p.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, msg string) {
	t.Helper()
	_, err := conn.Write([]byte(msg))
	require.NoError(t, err)
}

func expect(t *testing.T, conn net.Conn, msg string) {
	t.Helper()
	buf := make([]byte, len(msg))
	_, err := io.ReadFull(conn, buf)
	require.NoError(t, err)
	require.Equal(t, msg, string(buf))
}

func echoes(t *testing.T, conn net.Conn, msg string) {
	t.Helper()
	send(t, conn, msg)
	expect(t, conn, msg)
}

// expectSilence checks that nothing, not even an error, comes for a while.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
}

func TestProxyDelayIsPipelinedAndKeepsOrder(t *testing.T) {
	withEcho(t, func(t *testing.T, p *Proxy, _ *echo) {
		p.SetDelay(100*time.Millisecond, 100*time.Millisecond)
		conn := dial(t, p)
		start := time.Now()
		for _, msg := range []string{"a", "b", "c"} {
			send(t, conn, msg)
			time.Sleep(10 * time.Millisecond)
		}
		expect(t, conn, "abc")
		require.Equal(t, 220*time.Millisecond, time.Since(start), "one chunk's delay must not hold up the next")

		p.SetDelay(0, time.Second)
		want := ""
		for i := range 50 {
			msg := string(rune('A' + i))
			want += msg
			send(t, conn, msg)
			synctest.Wait()
		}
		expect(t, conn, want)

		p.SetDelays(time.Second, time.Second, 2*time.Second, 2*time.Second)
		start = time.Now()
		echoes(t, conn, "x")
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestProxyThrottle(t *testing.T) {
	withEcho(t, func(t *testing.T, p *Proxy, e *echo) {
		p.Throttle(4, 10)
		conn := dial(t, p)
		arrived := func(at time.Duration, want string) {
			t.Helper()
			time.Sleep(at)
			synctest.Wait()
			require.Equal(t, want, e.received())
		}
		send(t, conn, "ab")
		synctest.Wait()
		send(t, conn, "cde") // While the first two are forwarded.
		synctest.Wait()
		send(t, conn, "fgh")
		arrived(199*time.Millisecond, "")
		arrived(time.Millisecond, "ab")
		arrived(399*time.Millisecond, "ab")
		arrived(time.Millisecond, "abcdef")
		arrived(200*time.Millisecond, "abcdefgh")
		expect(t, conn, "abcdefgh")
		start := time.Now()
		echoes(t, conn, "12345678")
		require.Equal(t, 1200*time.Millisecond, time.Since(start), "the last four are on both ways one after the other")
		p.Throttle(0, 0)
		send(t, conn, "x")
		synctest.Wait()
		require.Equal(t, "abcdefgh12345678x", e.received())
	})
}

func TestProxyBlackHole(t *testing.T) {
	withEcho(t, func(t *testing.T, p *Proxy, e *echo) {
		idle, busy := dial(t, p), dial(t, p)
		synctest.Wait()
		p.BlackHole(true)
		fresh := dial(t, p)
		send(t, busy, "lost")
		send(t, fresh, "lost")
		expectSilence(t, busy)
		expectSilence(t, fresh)
		p.BlackHole(false)
		for _, dead := range []net.Conn{busy, fresh} {
			send(t, dead, "still lost")
			expectSilence(t, dead)
		}
		for _, alive := range []net.Conn{idle, dial(t, p)} {
			echoes(t, alive, "y")
		}
		require.Equal(t, "yy", e.received())
		require.EqualValues(t, 2*len("loststill lost"), p.Dropped())
	})
}

func TestProxyDropRequests(t *testing.T) {
	withEcho(t, func(t *testing.T, p *Proxy, e *echo) {
		p.SetDelay(time.Second, time.Second)
		conn := dial(t, p)
		send(t, conn, "x")
		time.Sleep(1500 * time.Millisecond) // The reply is on its way.
		send(t, conn, "y")
		p.DropRequests(true)
		expect(t, conn, "x")
		send(t, conn, "z")
		expectSilence(t, conn)
		require.Equal(t, "x", e.received())
		p.Kill()
		p.DropRequests(false)
		conn = dial(t, p)
		echoes(t, conn, "w")
		require.Equal(t, "xw", e.received())
	})
}

// What is on its way when its connection ends arrives later, if that is asked for.
func TestProxyLateBytes(t *testing.T) {
	for name, end := range map[string]func(*Proxy, net.Conn){
		"closed by the client": func(_ *Proxy, conn net.Conn) { _ = conn.Close() },
		"reset":                func(p *Proxy, _ net.Conn) { p.Reset() },
	} {
		withEcho(t, func(t *testing.T, p *Proxy, e *echo) {
			p.SetDelay(time.Second, time.Second)
			for _, late := range []time.Duration{time.Minute, 0} {
				p.LateBytes(late, 2*late)
				conn := dial(t, p)
				for _, msg := range []string{"a", "b"} {
					send(t, conn, msg)
					synctest.Wait()
				}
				end(p, conn)
				time.Sleep(time.Minute - time.Second)
				require.Equal(t, late == 0, e.received() != "", name)
				time.Sleep(2 * time.Minute)
				require.Equal(t, "ab", e.received(), "the later ones are lost")
			}
			require.EqualValues(t, 2, p.Stats().Late)
		})
	}
}
