package main

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// certify writes a certificate for a name, which signs itself, and its key.
func certify(t *testing.T, name string) (c *testcluster.Certificate, cert, key string) {
	t.Helper()
	c, err := testcluster.NewCertificate(name)
	require.NoError(t, err)
	cert, key, err = c.Write(t.TempDir())
	require.NoError(t, err)
	return c, cert, key
}

func TestTLS(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	authority, ca, _ := certify(t, "redis.example")
	trusted, clientCert, clientKey := certify(t, "client.example")
	config := authority.Server()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, trusted.Trusted
	addr, err := c.Nodes[0].Proxy().ListenTLS(config)
	require.NoError(t, err)
	client := []string{"--tls-cert", clientCert, "--tls-key", clientKey}
	tests := []struct {
		name  string
		nodes string
		args  []string
		code  int
	}{
		{"all of it", addr, append(client, "--tls", "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"by the address", "rediss://" + addr, append(client, "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"unchecked", addr, append(client, "--tls", "--tls-insecure"), exitNo},
		{"unchecked by the address", "rediss://" + addr, append(client, "--tls-insecure"), exitNo},
		{"not trusted", addr, append(client, "--tls", "--tls-server-name", "redis.example"), exitNoQuorum},
		{"another name", addr, append(client, "--tls", "--tls-ca", ca), exitNoQuorum},
		{"no certificate", addr, []string{"--tls", "--tls-insecure"}, exitNoQuorum},
		{"in plain text", addr, nil, exitNoQuorum},
		{"a certificate's file without TLS", addr, []string{"--tls-ca", ca}, exitUsage},
		{"unchecked without TLS", "redis://" + addr, []string{"--tls-insecure"}, exitUsage},
		{"a name without TLS", addr, []string{"--tls-server-name", "redis.example"}, exitUsage},
		{"a certificate without TLS", addr, client, exitUsage},
		{"by the address, for Valkey", "valkeys://" + addr, append(client, "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"one of two without TLS", "rediss://" + addr + "," + c.Addrs()[0], []string{"--tls-insecure"}, exitUsage},
		{"no key", addr, []string{"--tls", "--tls-cert", clientCert}, exitUsage},
		{"no certificate in the file", addr, []string{"--tls", "--tls-ca", clientKey}, exitUsage},
	}
	t.Setenv("REDLOCK_NODES", "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"status", "--nodes", tt.nodes}, append(slow, tt.args...)...)
			code, out, errOut := execTool(t, nil, append(args, "x")...)
			assert.Equal(t, tt.code, code, "%s%s", out, errOut)
		})
	}
}

// What the environment says of TLS must not go unheard either.
func TestTLSOfTheEnvironment(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	_, ca, _ := certify(t, "redis.example")
	for name, value := range map[string]string{
		"REDLOCK_TLS_CA": ca, "REDLOCK_TLS_INSECURE": "true", "REDLOCK_TLS_SERVER_NAME": "redis.example",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			code, _, errOut := execTool(t, c, append([]string{"status", "x"}, slow...)...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, errOut, name)
			assert.Contains(t, errOut, "give --tls, or addresses with rediss://")
		})
	}
}
