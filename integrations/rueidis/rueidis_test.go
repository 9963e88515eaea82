package redlockrueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	redlockrueidis "github.com/seed6c881748/redlock/integrations/rueidis"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func option(s nodetest.Server) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{s.Address}, TLSConfig: s.TLS, SelectDB: s.Database, ClientName: s.Client,
		Username: s.User, Password: s.Password,
	}
	if s.Network == "unix" { // As its ParseURL does.
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if s.Credentials != nil {
		o.Username, o.Password = "nobody", "wrong"
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, err error) {
			c.Username, c.Password, err = s.Credentials(context.Background())
			return c, err
		}
	}
	return o
}

func nodeOf(s nodetest.Server) redlock.Node { return redlockrueidis.Node(option(s)) }

func TestNode(t *testing.T) { nodetest.Run(t, nodeOf) }

func TestCredentialsProvider(t *testing.T) { nodetest.RunCredentials(t, true, nodeOf) }

// A user without a password is another one than the default user.
func TestAUserWithoutPassword(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	testkit.SetUser(t, n, "app", "nopass", "~*", "&*", "+@all")
	o := rueidis.ClientOption{InitAddress: []string{n.Addr()}, Username: "app", ClientName: "locks"}
	_, err := nodetest.Open(t, redlockrueidis.Node(o)).Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
	assert.Regexp(t, `name=locks .*user=app`, string(testkit.Admin(t, n, "CLIENT", "LIST").([]byte)))
}

// The dialling functions of the option are used, and AuthCredentialsFn is told where they led.
func TestDialFunctions(t *testing.T) {
	n, config := testcluster.RunEmbedded(t, 1).Nodes[0], &tls.Config{MinVersion: tls.VersionTLS13}
	dial := func(ctx context.Context, address string, d *net.Dialer, with *tls.Config) (net.Conn, error) {
		assert.Equal(t, "orders-db", address)
		assert.Equal(t, "from", d.LocalAddr.String())
		assert.Same(t, config, with)
		return n.Dial(ctx)
	}
	for i, set := range []func(*rueidis.ClientOption){
		func(o *rueidis.ClientOption) { o.DialCtxFn = dial },
		func(o *rueidis.ClientOption) {
			o.DialFn = func(address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
				return dial(context.Background(), address, d, config)
			}
		},
	} {
		o := rueidis.ClientOption{
			InitAddress: []string{"orders-db"}, TLSConfig: config, Dialer: net.Dialer{LocalAddr: &net.UnixAddr{Name: "from"}},
			AuthCredentialsFn: func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				assert.Equal(t, n.Addr(), c.Address.String())
				return rueidis.AuthCredentials{}, nil
			},
		}
		set(&o)
		node := redlockrueidis.Node(o)
		assert.Equal(t, "orders-db", node.Name)
		_, err := nodetest.Open(t, node).Lock(t.Context(), []string{fmt.Sprint(i)}, time.Minute)
		require.NoError(t, err)
	}
}

// The Dialer of the option is used, with TLS, too: it may bind an address, or have the connection leave by a tunnel.
func TestDialer(t *testing.T) {
	for name, config := range map[string]*tls.Config{"TCP": nil, "TLS": {MinVersion: tls.VersionTLS12}} {
		t.Run(name, func(t *testing.T) {
			o := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, TLSConfig: config}
			o.Dialer.Control = func(string, string, syscall.RawConn) error { return errors.New("no tunnel") }
			_, err := nodetest.Open(t, redlockrueidis.Node(o)).TryLock(t.Context(), []string{"x"}, time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "no tunnel")
		})
	}
}

// Options that do not lead to one master for good are refused before anything is dialled.
func TestOptionsThatAreRefused(t *testing.T) {
	several := []string{"a:1", "b:2"}
	for says, change := range map[string]func(*rueidis.ClientOption){
		"a Sentinel":     func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "m" },
		"0 addresses":    func(o *rueidis.ClientOption) { o.InitAddress = nil },
		"2 addresses":    func(o *rueidis.ClientOption) { o.InitAddress = several },
		"ReplicaOnly":    func(o *rueidis.ClientOption) { o.ReplicaOnly = true },
		"EnableRedirect": func(o *rueidis.ClientOption) { o.Standalone.EnableRedirect = true },
	} {
		o := rueidis.ClientOption{InitAddress: []string{"a:1"}}
		o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			t.Error("it dials")
			return nil, net.ErrClosed
		}
		change(&o)
		nodetest.Refused(t, redlockrueidis.Node(o), says)
	}
}
