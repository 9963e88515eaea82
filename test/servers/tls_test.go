package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func certificate(t *testing.T) *testcluster.Certificate {
	t.Helper()
	c, err := testcluster.NewCertificate()
	require.NoError(t, err)
	return c
}

// terminateTLS speaks TLS in front of a server, which need not be able to, and
// returns where.
func terminateTLS(t *testing.T, n *testcluster.Node, cert *testcluster.Certificate) string {
	t.Helper()
	addr, err := n.Proxy().ListenTLS(cert.Server())
	require.NoError(t, err)
	return addr
}

func TestTLSInFrontOfNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	cert := certificate(t)
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
	r := newPatient(t, nodes(redis.DialTLSConfig(cert.Client())))
	requireServes(t, c, r)
	for i, s := range r.Stats().Nodes {
		require.Equal(t, addrs[i], s.Node)
	}
	requireServes(t, c, newPatient(t, nodes(redis.DialTLSSkipVerify(true))))

	// Who does not trust the certificate must not get through.
	r = newPatient(t, nodes())
	await(t, patience, "the certificate is blamed", func() bool { // At first the handshake may take too long.
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
		return strings.Contains(err.Error(), "certificate")
	})
}

// TLS in front of a server, spoken to in plain text.
func TestTLSThatAPortWantsIsNamed(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	r := newPatient(t, []redlock.Node{redlock.NewNode(terminateTLS(t, c.Nodes[0], certificate(t)))})
	err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
	require.Regexp(t, `the port speaks TLS|it may expect TLS`, err.Error())
}
