package redlockvalkeygo_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	redlockvalkeygo "github.com/seed6c881748/redlock/integrations/valkeygo"
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
