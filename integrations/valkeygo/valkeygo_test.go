package redlockvalkeygo_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	redlockvalkeygo "github.com/seed6c881748/redlock/integrations/valkeygo"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func option(s nodetest.Server) valkey.ClientOption {
	o := valkey.ClientOption{
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
		o.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (c valkey.AuthCredentials, err error) {
			c.Username, c.Password, err = s.Credentials(context.Background())
			return c, err
		}
	}
	return o
}

func nodeOf(s nodetest.Server) redlock.Node { return redlockvalkeygo.Node(option(s)) }

func TestMain(m *testing.M) { nodetest.Main(m, nodeOf) }

func TestNode(t *testing.T) { nodetest.Run(t, nodeOf) }

func TestCredentialsProvider(t *testing.T) { nodetest.RunCredentials(t, nodeOf) }

// A user without a password is another one than the default user.
func TestAUserWithoutPassword(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	conn, err := n.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.Do("ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all")
	require.NoError(t, err)
	lock, err := open(t, redlockvalkeygo.Node(valkey.ClientOption{InitAddress: []string{n.Addr()}, Username: "app", ClientName: "locks"})).
		Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
	clients, err := conn.Do("CLIENT", "LIST")
	require.NoError(t, err)
	assert.Regexp(t, `name=locks .*user=app`, string(clients.([]byte)))
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, conn.Close())
}

// The dialling functions of the option are used, and AuthCredentialsFn is told where they led.
func TestDialFunctions(t *testing.T) {
	n := testcluster.RunEmbedded(t, 1).Nodes[0]
	for name, tt := range map[string]func(*valkey.ClientOption, func(address string)){
		"DialCtxFn": func(o *valkey.ClientOption, dials func(string)) {
			o.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				dials(address)
				return n.Dial(ctx)
			}
		},
		"DialFn": func(o *valkey.ClientOption, dials func(string)) {
			o.DialFn = func(address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				dials(address)
				return n.Dial(context.Background())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var address, server string
			o := valkey.ClientOption{
				InitAddress: []string{"orders-db"},
				AuthCredentialsFn: func(c valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
					server = c.Address.String()
					return valkey.AuthCredentials{}, nil
				},
			}
			tt(&o, func(a string) { address = a })
			node := redlockvalkeygo.Node(o)
			assert.Equal(t, "orders-db", node.Name)
			_, err := open(t, node).Lock(t.Context(), []string{name}, time.Minute)
			require.NoError(t, err)
			assert.Equal(t, "orders-db", address)
			assert.Equal(t, n.Addr(), server)
		})
	}
}

// Options that do not lead to one master for good are refused before anything is dialled.
func TestOptionsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*valkey.ClientOption)
		says   string
	}{
		"a Sentinel":      {func(o *valkey.ClientOption) { o.Sentinel.MasterSet = "m" }, "a Sentinel"},
		"no address":      {func(o *valkey.ClientOption) { o.InitAddress = nil }, "0 addresses"},
		"several":         {func(o *valkey.ClientOption) { o.InitAddress = []string{"a:1", "b:2"} }, "2 addresses"},
		"replicas only":   {func(o *valkey.ClientOption) { o.ReplicaOnly = true }, "ReplicaOnly"},
		"redirects":       {func(o *valkey.ClientOption) { o.Standalone.EnableRedirect = true }, "EnableRedirect"},
		"Sentinels, many": {func(o *valkey.ClientOption) { o.InitAddress, o.Sentinel.MasterSet = []string{"a:1", "b:2"}, "m" }, "a Sentinel"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valkey.ClientOption{InitAddress: []string{"a:1"}}
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				t.Error("it dials")
				return nil, net.ErrClosed
			}
			tt.change(&o)
			_, err := redlock.New([]redlock.Node{redlock.NewNode("localhost:1"), redlockvalkeygo.Node(o)})
			require.ErrorContains(t, err, "node 1")
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func open(t *testing.T, nodes ...redlock.Node) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(nodes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close(context.WithoutCancel(t.Context()))) })
	return r
}
