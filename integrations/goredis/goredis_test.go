package redlockgoredis_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	redlockgoredis "github.com/seed6c881748/redlock/integrations/goredis"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func options(s nodetest.Server) *redis.Options {
	return &redis.Options{
		Network: s.Network, Addr: s.Address, TLSConfig: s.TLS, DB: s.Database, ClientName: s.Client,
		Username: s.User, Password: s.Password, CredentialsProviderContext: s.Credentials,
	}
}

// The client is never used, so there is nothing to close.
func nodeOf(s nodetest.Server) redlock.Node { return redlockgoredis.Node(redis.NewClient(options(s))) }

func TestNode(t *testing.T) { nodetest.Run(t, nodeOf) }

// In go-redis's order: a provider that comes earlier wins over those below it.
func TestCredentialsProviders(t *testing.T) {
	wrong := func() (string, string) { return "nobody", "wrong" }
	for name, provide := range map[string]func(*redis.Options, nodetest.Server){
		"StreamingCredentialsProvider": func(o *redis.Options, s nodetest.Server) {
			o.StreamingCredentialsProvider = &streaming{get: s.Credentials}
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "nobody", "wrong", nil }
		},
		"CredentialsProviderContext": func(o *redis.Options, _ nodetest.Server) { o.CredentialsProvider = wrong },
		"CredentialsProvider": func(o *redis.Options, s nodetest.Server) {
			o.Username, o.Password, o.CredentialsProviderContext = "nobody", "wrong", nil
			o.CredentialsProvider = func() (string, string) {
				user, password, _ := s.Credentials(context.Background())
				return user, password
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			canFail := name != "CredentialsProvider"
			nodetest.RunCredentials(t, canFail, func(s nodetest.Server) redlock.Node {
				o := options(s)
				provide(o, s)
				return redlockgoredis.Node(redis.NewClient(o))
			})
		})
	}
}

// A provider that hangs is given up with the connection for which it is asked.
func TestAProviderThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := testcluster.Pipe()
		c := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:1", // Of a name, NewClient asks the DNS, outside of the bubble.
			Dialer: func(context.Context, string, string) (net.Conn, error) { return client, nil },
			CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
					t.Error("the provider was not given up")
				}
				return "", "", errors.New("no token")
			},
		})
		require.NoError(t, c.Close())
		_, err := nodetest.Open(t, redlockgoredis.Node(c)).TryLock(t.Context(), []string{"x"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(2 * time.Hour)
		require.NoError(t, server.Close())
	})
}

// go-redis does not log in a user without a password, so that the connection is the default user's.
func TestAUserWithoutPassword(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	_, err := nodetest.Open(t, redlockgoredis.Node(redis.NewClient(&redis.Options{Addr: n.Addr(), Username: "nobody"}))).
		Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
}

// streaming is a provider that counts who listens to it. Each listener is another one, as a provider may tell them
// apart.
type streaming struct {
	get       func(context.Context) (user, password string, err error)
	listening atomic.Int64
	known     sync.Map
}

func (p *streaming) Subscribe(listener auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	if _, known := p.known.LoadOrStore(listener, true); known {
		return nil, nil, errors.New("this one listens already")
	}
	user, password, err := p.get(context.Background())
	if err != nil {
		return nil, nil, err
	}
	p.listening.Add(1)
	return auth.NewBasicCredentials(user, password), func() error { p.listening.Add(-1); return nil }, nil
}

// Nobody is left to listen, whom a provider would keep in its list for good.
func TestStreamingCredentialsAreUnsubscribed(t *testing.T) {
	p := &streaming{get: func(context.Context) (string, string, error) { return "", "", nil }}
	for _, n := range testcluster.RunServers(t, 2).Nodes {
		r := nodetest.Open(t, redlockgoredis.Node(redis.NewClient(&redis.Options{Addr: n.Addr(), StreamingCredentialsProvider: p})))
		_, err := r.Lock(t.Context(), []string{"x"}, time.Minute)
		require.NoError(t, err)
	}
	assert.Zero(t, p.listening.Load())
}

// A dialer of the client's is used, whatever it makes of network and address.
func TestDialer(t *testing.T) {
	n := testcluster.RunEmbedded(t, 1).Nodes[0]
	client := redis.NewClient(&redis.Options{
		Addr: "orders-db", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			assert.Equal(t, "tcp orders-db", network+" "+addr)
			return n.Dial(ctx)
		},
	})
	require.NoError(t, client.Close()) // The node does without it.
	node := redlockgoredis.Node(client)
	assert.Equal(t, "orders-db", node.Name)
	_, err := nodetest.Open(t, node).Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
}

// Clients that do not lead to one master for good are refused before anything is dialled.
func TestClientsThatAreRefused(t *testing.T) {
	forbidden := func(context.Context, string, string) (net.Conn, error) {
		t.Error("it dials")
		return nil, errors.New("forbidden")
	}
	addrs := []string{"a:1", "b:2"}
	for says, client := range map[string]redis.UniversalClient{
		"a replica":            redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: addrs, Dialer: forbidden}),
		"*redis.ClusterClient": redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, Dialer: forbidden}),
		"*redis.Ring":          redis.NewRing(&redis.RingOptions{}), // With servers, it dials from the beginning.
		"no client":            (*redis.Client)(nil),
		"redis.NewClient":      struct{ redis.UniversalClient }{}, // One of the user's own.
	} {
		nodetest.Refused(t, redlockgoredis.Node(client), says)
	}
	nodetest.Refused(t, redlockgoredis.Node(nil), "no client")
}
