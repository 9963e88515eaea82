package testcluster

import (
	"net"
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
