package nodetest

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
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
	for _, n := range c.Nodes {
		testkit.Admin(t, n, "ACL", "SETUSER", name, "reset", "on", ">"+password, "~*", "&*", "+@all")
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
