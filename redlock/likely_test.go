package redlock_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// talker listens on a loopback port, and serves each connection with talk.
func talker(t *testing.T, talk func(conn net.Conn)) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				talk(conn)
				_ = conn.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

// The first thing that goes wrong with a new installation is the address.
func TestErrorNamesAPortThatSpeaksSomethingElse(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := testcluster.RunEmbedded(t, 1).Nodes[0].Addr()
	ssh := talker(t, func(conn net.Conn) {
		_, _ = fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.6\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	closes := talker(t, func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadString('\n') })
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	hostOf := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	trust := redis.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
	foreign := func(addr string, opts ...redis.DialOption) redlock.Node {
		return redlock.Node{Name: "pool", Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, opts...)
		})}
	}
	for name, c := range map[string]struct {
		node redlock.Node
		want string
	}{
		"HTTP":               {redlock.NewNode(hostOf(web.URL)), "the port speaks HTTP"},
		"HTTP, with TLS":     {redlock.NewNode("rediss://" + hostOf(web.URL)), "the port speaks HTTP"},
		"HTTPS":              {redlock.NewNode(hostOf(secure.URL)), "TLS"},
		"HTTPS, with TLS":    {redlock.NewNode("rediss://"+hostOf(secure.URL), trust), "the port does not seem to speak Redis"},
		"plain, with TLS":    {redlock.NewNode("rediss://" + plain), "not speak TLS"},
		"SSH":                {redlock.NewNode(ssh), `the port does not speak Redis, it began with "SSH-2.0-OpenSSH_"`},
		"hangs up":           {redlock.NewNode(closes), "the server hung up before it answered anything: it may expect TLS"},
		"SSH, a pool":        {foreign(ssh), "the port does not seem to speak Redis"},
		"SSH, TLS in a pool": {foreign(ssh, redis.DialUseTLS(true)), "the port does not speak TLS"},
		"with a password":    {redlock.NewNode("redis://:secret@" + hostOf(web.URL)), "the port speaks HTTP"},
		"with redigo's":      {redlock.NewNode(hostOf(web.URL), redis.DialPassword("secret")), "the port speaks HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newOver(t, []redlock.Node{c.node}, redlock.WithNodeTimeout(patient))
			_, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestErrorNamesCredentialsWithoutAScheme(t *testing.T) {
	for _, addr := range []string{"user:secret@10.0.0.1:6379", ":secret@10.0.0.1:6379", "secret@10.0.0.1:6379"} {
		_, err := redlock.New([]redlock.Node{redlock.NewNode(addr)})
		require.ErrorContains(t, err, "credentials need a URL: redis://user:password@host:port")
		require.ErrorContains(t, err, "10.0.0.1:6379")
		require.NotContains(t, err.Error(), "secret")
	}
}
