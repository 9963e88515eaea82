package testcluster

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxyDelayIsPipelinedAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := startEcho(t)
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
		send(t, conn, "x")
		expect(t, conn, "x")
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestProxyThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := startEcho(t)
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
		send(t, conn, "12345678")
		expect(t, conn, "12345678")
		require.Equal(t, 1200*time.Millisecond, time.Since(start), "the last four are on both ways one after the other")
		p.Throttle(0, 0)
		send(t, conn, "x")
		synctest.Wait()
		require.Equal(t, "abcdefgh12345678x", e.received())
	})
}

func TestProxyBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := startEcho(t)
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
			send(t, alive, "y")
			expect(t, alive, "y")
		}
		require.Equal(t, "yy", e.received())
		require.EqualValues(t, 2*len("loststill lost"), p.Dropped())
	})
}

func TestProxyDropRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := startEcho(t)
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
		send(t, conn, "w")
		expect(t, conn, "w")
		require.Equal(t, "xw", e.received())
	})
}
