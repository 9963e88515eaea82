package testcluster

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxyLateBytes(t *testing.T) {
	for name, end := range map[string]func(*Proxy, net.Conn){
		"closed by the client": func(_ *Proxy, conn net.Conn) { _ = conn.Close() },
		"reset":                func(p *Proxy, _ net.Conn) { p.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, e := startEcho(t)
				p.SetDelay(time.Second, time.Second)
				p.LateBytes(time.Minute, 2*time.Minute)
				conn := dial(t, p)
				send(t, conn, "a")
				synctest.Wait()
				send(t, conn, "b")
				synctest.Wait()
				end(p, conn)
				time.Sleep(59 * time.Second)
				require.Empty(t, e.received())
				time.Sleep(2 * time.Minute)
				require.Equal(t, "ab", e.received())
				require.EqualValues(t, 2, p.Stats().Late)

				p.LateBytes(0, 0)
				conn = dial(t, p)
				send(t, conn, "c")
				synctest.Wait()
				end(p, conn)
				time.Sleep(time.Hour)
				require.Equal(t, "ab", e.received())
			})
		})
	}
}

func TestProxyKillDropsLateBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := startEcho(t)
		p.SetDelay(time.Second, time.Second)
		p.LateBytes(time.Minute, time.Minute)
		conn := dial(t, p)
		send(t, conn, "a")
		synctest.Wait()
		p.Reset()
		p.Kill()
		time.Sleep(time.Hour)
		require.Empty(t, e.received())
	})
}

func TestProxyWithoutUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProxy(func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") })
		defer p.Close()
		conn := dial(t, p)
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestProxyDeliversRepliesOfAServerThatHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProxy(func(context.Context) (net.Conn, error) {
			client, server := newPipe()
			_, err := server.Write([]byte("bye"))
			return client, errors.Join(err, server.Close())
		})
		defer p.Close()
		p.SetDelay(time.Second, time.Second)
		got, err := io.ReadAll(dial(t, p))
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
	})
}

func TestProxyCloseWhileFaultsAreOn(t *testing.T) {
	for name, fault := range map[string]func(*Proxy){
		"hang":       (*Proxy).Hang,
		"black hole": func(p *Proxy) { p.BlackHole(true) },
		"delay":      func(p *Proxy) { p.SetDelay(time.Hour, time.Hour) },
		"late":       func(p *Proxy) { p.LateBytes(time.Hour, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := startEcho(t)
				send(t, dial(t, p), "x")
				fault(p)
				send(t, dial(t, p), "x")
				synctest.Wait()
			})
		})
	}
}
