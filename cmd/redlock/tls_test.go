package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// certify writes a certificate for a name, which signs itself, and its key.
func certify(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

// behindTLS speaks TLS in front of a node, to clients with a certificate.
func behindTLS(t *testing.T, node *testcluster.Node, cert, key, clients string) string {
	t.Helper()
	own, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	text, err := os.ReadFile(clients)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(text))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			outside, err := ln.Accept()
			if err != nil {
				return
			}
			inside, err := net.Dial("tcp", node.Addr())
			if err != nil {
				_ = outside.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{outside, inside}, {inside, outside}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
	return ln.Addr().String()
}

func TestTLS(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	ca, key := certify(t, "redis.example")
	clientCert, clientKey := certify(t, "client.example")
	addr := behindTLS(t, c.Nodes[0], ca, key, clientCert)
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
	ca, _ := certify(t, "redis.example")
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
