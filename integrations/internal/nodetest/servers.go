package nodetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
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
	TLSAddrs []string
	CAFile   string // has the certificate that a client must trust
	trusted  *x509.CertPool
}

// StartServers starts servers, which end with the test.
func StartServers(t *testing.T) *Servers {
	t.Helper()
	certificate, key, trusted := newCertificate(t)
	c := &Servers{Cluster: &testcluster.Cluster{}, CAFile: certificate, trusted: trusted}
	for range 3 {
		node, addr := startServer(t, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
		c.Nodes, c.TLSAddrs = append(c.Nodes, node), append(c.TLSAddrs, addr)
	}
	return c
}

// startServer tries ports until one is free.
func startServer(t *testing.T, args ...string) (node *testcluster.Node, tlsAddr string) {
	t.Helper()
	const from, to, attempts = 20000, 32000, 5
	for attempt := range attempts {
		port := strconv.Itoa(from + mathrand.N(to-from))
		c, err := testcluster.StartServers(1, testcluster.WithUnixSocket(), testcluster.WithArgs(append(args, "--tls-port", port)...))
		if err == nil {
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			return c.Nodes[0], "127.0.0.1:" + port
		}
		if os.Getenv("CI") != "true" {
			t.Skip("no server with TLS: ", err)
		}
		require.Less(t, attempt, attempts-1, "%v", err)
	}
	return nil, ""
}

func (c *Servers) tcp(i int) Server { return Server{Network: "tcp", Address: c.Nodes[i].Addr()} }

func (c *Servers) tls(i int) Server {
	return Server{
		Network: "tcp", Address: c.TLSAddrs[i],
		TLS: &tls.Config{RootCAs: c.trusted, MinVersion: tls.VersionTLS12},
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

// newCertificate writes a certificate for this machine that signs itself.
func newCertificate(t *testing.T) (certificateFile, keyFile string, trusted *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	trusted = x509.NewCertPool()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.True(t, trusted.AppendCertsFromPEM(certificate))
	dir := t.TempDir()
	certificateFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certificateFile, certificate, 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return certificateFile, keyFile, trusted
}

// Addrs starts three servers in memory, for the examples of a package, and returns where they are.
func Addrs() []string {
	c, err := testcluster.StartEmbedded(3)
	if err != nil {
		panic(err)
	}
	return c.Addrs() // They end with the process.
}
