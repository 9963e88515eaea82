package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// certificate returns a self-signed one for the loopback address, and the pool
// that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
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
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trusted
}

// terminateTLS speaks TLS in front of a server, which need not be able to, and
// returns where.
func terminateTLS(t *testing.T, n *testcluster.Node, cert tls.Certificate) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			outside, err := ln.Accept()
			if err != nil {
				return
			}
			inside, err := net.Dial("tcp", n.Addr())
			if err != nil {
				_ = outside.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{outside, inside}, {inside, outside}} {
				all.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
	return ln.Addr().String()
}

func TestTLSInFrontOfNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	cert, trusted := certificate(t)
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, terminateTLS(t, n, cert))
	}
	nodes := func(opts ...redis.DialOption) (all []redlock.Node) {
		for _, a := range addrs {
			all = append(all, redlock.NewNode("rediss://"+a, opts...))
		}
		return all
	}
	r := newPatient(t, nodes(redis.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})))
	requireServes(t, c, r)
	for i, s := range r.Stats().Nodes {
		require.Equal(t, addrs[i], s.Node)
	}
	requireServes(t, c, newPatient(t, nodes(redis.DialTLSSkipVerify(true))))

	// Who does not trust the certificate must not get through.
	r = newPatient(t, nodes())
	await(t, 30*time.Second, "the certificate is blamed", func() bool { // At first the handshake may take too long.
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
		return strings.Contains(err.Error(), "certificate")
	})
}

// TLS in front of a server, spoken to in plain text.
func TestTLSThatAPortWantsIsNamed(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	cert, _ := certificate(t)
	r := newPatient(t, []redlock.Node{redlock.NewNode(terminateTLS(t, c.Nodes[0], cert))})
	err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
	require.Regexp(t, `the port speaks TLS|it may expect TLS`, err.Error())
}
