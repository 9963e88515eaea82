package nodetest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Servers are three that listen on a TCP port, on another one with TLS, and on a Unix socket. Without
// a password, a client is a user who may do everything.
type Servers struct {
	*testcluster.Cluster
	Certificate *testcluster.Certificate // that a client must trust
}

// StartServers starts servers, which end with the test.
func StartServers(t *testing.T) *Servers {
	t.Helper()
	certificate, err := testcluster.NewCertificate()
	require.NoError(t, err)
	return &Servers{testcluster.RunServers(t, 3, testcluster.WithUnixSocket(), testcluster.WithTLS(certificate)), certificate}
}

func (c *Servers) tcp(i int) Server { return Server{Network: "tcp", Address: c.Nodes[i].Addr()} }

func (c *Servers) tls(i int) Server {
	return Server{
		Network: "tcp", Address: c.Nodes[i].TLSAddr(),
		TLS: &tls.Config{RootCAs: c.Certificate.Trusted, MinVersion: tls.VersionTLS12},
	}
}

// SetUser makes a user with one password, which may do everything.
func (c *Servers) SetUser(t *testing.T, name, password string) {
	t.Helper()
	c.eachAdmin(t, "ACL", "SETUSER", name, "reset", "on", ">"+password, "~*", "&*", "+@all")
}

func (c *Servers) eachAdmin(t *testing.T, command string, args ...any) {
	t.Helper()
	for i := range c.Nodes {
		c.admin(t, i, command, args...)
	}
}

// admin runs a command on a server, and returns its answer as text.
func (c *Servers) admin(t *testing.T, i int, command string, args ...any) string {
	t.Helper()
	conn, err := c.Nodes[i].Conn(t.Context())
	require.NoError(t, err)
	reply, err := conn.Do(command, args...)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	text, _ := redis.String(reply, nil)
	return text
}

// requireReleased waits until no server has a lock in a database. What they keep a minute for those
// who wait may be left.
func (c *Servers) requireReleased(t *testing.T, database int, resources ...any) {
	t.Helper()
	for _, n := range c.Nodes {
		conn, err := n.Conn(t.Context(), redis.DialDatabase(database))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			left, existsErr := redis.Int(conn.Do("EXISTS", resources...))
			return existsErr == nil && left == 0
		}, patience, 10*time.Millisecond)
		require.NoError(t, conn.Close())
	}
}

// Addrs starts three servers in memory, for the examples of a package, and returns where they are.
func Addrs() []string {
	c, err := testcluster.StartEmbedded(3)
	if err != nil {
		panic(err)
	}
	return c.Addrs() // They end with the process.
}
