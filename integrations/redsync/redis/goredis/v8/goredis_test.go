package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-redis/redis/v8"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/internal/conntest"
	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A wrapped client is one of a program's own, as many have.
type wrapped struct{ redis.UniversalClient }

type embedded struct{ *redis.Client }

// A prefixed client has each key in a name space.
type prefixed struct{ redis.UniversalClient }

func (p prefixed) SetNX(ctx context.Context, key string, value interface{}, d time.Duration) *redis.BoolCmd {
	return p.UniversalClient.SetNX(ctx, "app:"+key, value, d)
}

// A hook does what its function does with commands, before they are sent.
type hook func(ctx context.Context, cmd redis.Cmder) error

func (h hook) BeforeProcess(ctx context.Context, cmd redis.Cmder) (context.Context, error) {
	return ctx, h(ctx, cmd)
}
func (hook) AfterProcess(context.Context, redis.Cmder) error { return nil }
func (hook) BeforeProcessPipeline(ctx context.Context, _ []redis.Cmder) (context.Context, error) {
	return ctx, nil
}
func (hook) AfterProcessPipeline(context.Context, []redis.Cmder) error { return nil }

func hooked(client *redis.Client, h hook) *redis.Client {
	client.AddHook(h)
	return client
}

// Clients of all kinds that programs have lock the same key, and their pools' connections do what redsync's do.
func TestClients(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	newClient := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: n.Addr()}) } // They end with the process.
	client, calls := newClient(), 0
	conntest.Run(t, goredis.NewPool(client))
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all").Err())
	traced := hooked(newClient(), func(context.Context, redis.Cmder) error { calls++; return nil })
	for name, c := range map[string]redis.UniversalClient{
		"a client":            client,
		"of a configuration":  redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{n.Addr()}}),
		"with a password":     redis.NewClient(&redis.Options{Addr: n.Addr(), Username: "app", Password: "secret"}),
		"twice":               &wrapped{&embedded{client}},
		"with a tracing hook": traced,
	} {
		t.Run(name, func(t *testing.T) {
			conntest.Locks(t, goredis.NewPool(c), goredis.NewPool(client), func(name string) string {
				return client.Get(t.Context(), name).Val()
			})
		})
	}
	assert.Equal(t, 1, calls, "what asks whether the hook passes commands on")
	clientOfPool := func(p redsyncredis.Pool) any { return p.(redsyncredis.NodePool).Client() }
	assert.Equal(t, clientOfPool(goredis.NewPool(client)), clientOfPool(goredis.NewPool(&wrapped{client})))
	// What changes commands is not the client that it embeds, even if that one is in use.
	require.NoError(t, redsync.New(goredis.NewPool(client)).NewMutex("x").Lock())
	conntest.Refused(t, goredis.NewPool(prefixed{client}), "without that hook")
}

// Clients on which a mutex would not lock what the program means fail each call, and nothing is sent.
func TestClientsThatAreRefused(t *testing.T) {
	forbidden := func(context.Context, string, string) (net.Conn, error) { //nolint:unparam // It is a dialer.
		t.Error("it dials")
		return nil, errors.New("forbidden")
	}
	client := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: "localhost:1", Dialer: forbidden}) }
	closed := client()
	require.NoError(t, closed.Close())
	addrs := []string{"a:1", "b:2"}
	for says, c := range map[string]redis.UniversalClient{
		"was given nil":        nil,
		"given nil":            (*redis.Client)(nil),
		"*redis.ClusterClient": redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: forbidden}),
		"ClusterClient, which": wrapped{redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, Dialer: forbidden})},
		"*redis.Ring":          redis.NewRing(&redis.RingOptions{}), // With servers, it dials.
		"closed":               closed,
		"answers commands itself": hooked(client(), func(_ context.Context, cmd redis.Cmder) error {
			cmd.(*redis.BoolCmd).SetVal(true)
			return errors.New("answered")
		}),
		"its prefix to the names": hooked(client(), func(_ context.Context, cmd redis.Cmder) error {
			cmd.Args()[1] = "app:" + cmd.Args()[1].(string)
			return nil
		}),
	} {
		conntest.Refused(t, goredis.NewPool(c), says)
	}
}

// What a client's settings cannot be for mutexes is logged.
func TestWarnings(t *testing.T) {
	on := func(context.Context, *redis.Conn) error { return nil }
	conntest.Warns(t, goredis.NewPool(redis.NewClient(&redis.Options{})), false, false)
	conntest.Warns(t, goredis.NewPool(redis.NewFailoverClient(&redis.FailoverOptions{OnConnect: on})), true, true)
}
