// Package nodetest tries the nodes that integrations make of another library's clients, on real
// servers: the same for each of these libraries.
package nodetest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	ttl      = time.Minute
	patience = 2 * time.Minute // for what takes milliseconds on an idle machine
	password = "secret"
)

// A Server is what the library's client is to be told of a server.
type Server struct {
	Network, Address string // tcp or unix
	TLS              *tls.Config
	User, Password   string
	Credentials      func(ctx context.Context) (user, password string, err error) // instead of these; may be nil
	Database         int
	Client           string
}

// A NodeFunc makes a node of the library's client for a server.
type NodeFunc func(Server) redlock.Node

// Run runs all tests.
func Run(t *testing.T, node NodeFunc) {
	t.Helper()
	c := StartServers(t)
	t.Run("ways", func(t *testing.T) { testWays(t, c, node) })
	t.Run("the client's name", func(t *testing.T) { testName(t, c, node) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, c, node) })
}

// RunCredentials tries one kind of credentials provider, which nodes ask for each connection.
func RunCredentials(t *testing.T, canFail bool, node NodeFunc) {
	t.Helper()
	c := StartServers(t)
	c.SetUser(t, "app", password)
	if canFail {
		t.Run("it fails", func(t *testing.T) { testProviderFails(t, c, node) })
	}
	t.Run("it rotates", func(t *testing.T) { testRotation(t, c, node) })
}

// Refused requires that New refuses a node that a client cannot be, and says so.
func Refused(t *testing.T, node redlock.Node, says string) {
	t.Helper()
	_, err := redlock.New([]redlock.Node{redlock.NewNode("localhost:1"), node})
	require.ErrorContains(t, err, "node 2 of 2")
	require.ErrorContains(t, err, "is not supported: ")
	require.NotContains(t, err.Error(), "malformed")
	require.ErrorContains(t, err, says)
}

// Every way to a server leads to the same locks as NewNode.
func testWays(t *testing.T, c *Servers, node NodeFunc) {
	t.Helper()
	c.SetUser(t, "app", password)
	for name, way := range map[string]func(i int) Server{
		"tcp":      c.tcp,
		"unix":     func(i int) Server { return Server{Network: "unix", Address: c.Nodes[i].Socket()} },
		"TLS":      c.tls,
		"user":     func(i int) Server { s := c.tcp(i); s.User, s.Password = "app", password; return s },
		"TLS user": func(i int) Server { s := c.tls(i); s.User, s.Password = "app", password; return s },
		"database": func(i int) Server { s := c.tcp(i); s.Database = 3; return s },
		"unix database": func(i int) Server {
			return Server{Network: "unix", Address: c.Nodes[i].Socket(), Database: 3}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ours, theirs []redlock.Node
			for i := range c.Nodes {
				s := way(i)
				ours = append(ours, node(s))
				theirs = append(theirs, redlock.NewNode(fmt.Sprintf("redis://%s/%d", c.Nodes[i].Addr(), s.Database)))
				assert.Equal(t, expectedName(s), ours[i].Name)
			}
			requireExclusion(t, Open(t, ours...), Open(t, theirs...))
			requireExclusion(t, Open(t, theirs...), Open(t, ours...))
		})
	}
}

// expectedName is the name as NewNode has it.
func expectedName(s Server) string {
	switch {
	case s.Database == 0:
		return s.Address
	case s.Network == "unix":
		return fmt.Sprintf("%s?db=%d", s.Address, s.Database)
	default:
		return fmt.Sprintf("%s/%d", s.Address, s.Database)
	}
}

// requireExclusion has a wait for what b holds.
func requireExclusion(t *testing.T, a, b *redlock.Redlock) {
	t.Helper()
	held, err := b.Lock(t.Context(), []string{"x", "y"}, ttl)
	require.NoError(t, err)
	require.NoError(t, held.Extend(t.Context(), 2*ttl))
	_, err = a.TryLock(t.Context(), []string{"y"}, ttl)
	require.ErrorIs(t, err, redlock.ErrTaken)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		l, lockErr := a.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1))
		if lockErr == nil {
			lockErr = l.Unlock(ctx)
		}
		got <- lockErr
	}()
	require.Eventually(t, func() bool { return len(a.WaitingCalls()) == 1 }, patience, time.Millisecond)
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, <-got)
}

// Who looks at a server sees whose connections they are.
func testName(t *testing.T, c *Servers, node NodeFunc) {
	t.Helper()
	s := c.tcp(0)
	s.Client = "billing"
	lock, err := Open(t, node(s)).Lock(t.Context(), []string{"x"}, ttl)
	require.NoError(t, err)
	assert.Contains(t, string(testkit.Admin(t, c.Nodes[0], "CLIENT", "LIST").([]byte)), "name=billing")
	require.NoError(t, lock.Unlock(t.Context()))
}

// What a server or its certificate is refused for is said, without the password.
func testRefusals(t *testing.T, c *Servers, node NodeFunc) {
	t.Helper()
	unknown, wrong := c.tls(0), c.tcp(0)
	unknown.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	wrong.User, wrong.Password = "app", "guessed"
	for says, s := range map[string]Server{"x509": unknown, "WRONGPASS": wrong} {
		_, err := Open(t, node(s)).TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "guessed")
	}
}

// What a provider says is its node's vote, and it is asked again for the next connection.
func testProviderFails(t *testing.T, c *Servers, node NodeFunc) {
	t.Helper()
	var works atomic.Bool
	s := c.tcp(0)
	s.Credentials = func(context.Context) (string, string, error) {
		if !works.Load() {
			return "", "", errors.New("the vault is sealed")
		}
		return "app", password, nil
	}
	r := Open(t, node(s))
	_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "the vault is sealed")
	works.Store(true)
	requireLockInTime(t, r)
}

// The password changes, and the servers end the connections that were made with the old one, as
// managed services do when a token expires. New ones are made with the new password, and a lock that
// is held goes on.
func testRotation(t *testing.T, c *Servers, node NodeFunc) {
	t.Helper()
	var issued, asked atomic.Int64
	token := func() string { return fmt.Sprint("token-", issued.Load()) }
	rotate := func() {
		issued.Add(1)
		c.SetUser(t, "rotated", token())
		for _, n := range c.Nodes {
			testkit.Admin(t, n, "CLIENT", "KILL", "USER", "rotated")
		}
	}
	rotate()
	var nodes []redlock.Node
	for i := range c.Nodes {
		s := c.tls(i)
		s.Credentials = func(context.Context) (string, string, error) {
			asked.Add(1)
			return "rotated", token(), nil
		}
		nodes = append(nodes, node(s))
	}
	r := Open(t, nodes...)
	held, err := r.Lock(t.Context(), []string{"held"}, ttl)
	require.NoError(t, err)
	for range 3 {
		before := asked.Load()
		rotate()
		requireLockInTime(t, r)
		require.NoError(t, held.Extend(t.Context(), ttl))
		assert.Greater(t, asked.Load(), before)
	}
	require.NoError(t, held.Unlock(t.Context()))
}

// requireLockInTime takes a lock as soon as there are connections again.
func requireLockInTime(t *testing.T, r *redlock.Redlock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := r.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1), redlock.WithRetryDelay(20*time.Millisecond))
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}
