package redlockvalkeygo_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func TestNode(t *testing.T) { nodetest.Run(t, nodeOf) }

func TestCredentialsProvider(t *testing.T) { nodetest.RunCredentials(t, true, nodeOf) }

// valkey-go is a fork of rueidis with the same options. What is mended for one of them is mended for
// the other, and the tests there of options that are refused, and of dialling functions, hold here.
func TestTheCodeIsThatForRueidis(t *testing.T) {
	theirs, err := os.ReadFile("../rueidis/rueidis.go")
	require.NoError(t, err)
	ours, err := os.ReadFile("valkeygo.go")
	require.NoError(t, err)
	names := strings.NewReplacer(
		"github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
		"redlockrueidis", "redlockvalkeygo", "rueidis.ClientOption", "valkey.ClientOption",
		"rueidis.AuthCredentials", "valkey.AuthCredentials", "rueidis.NewClient", "valkey.NewClient",
		"rueidis", "valkey-go",
	)
	assert.Equal(t, names.Replace(string(theirs)), string(ours))
}
