package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync/internal/conntest"
	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A wrapped client is one of a program's own, as many have.
type wrapped struct{ redis.UniversalClient }

type embedded struct{ *redis.Client }

// A prefixed client has each key in a name space.
type prefixed struct{ redis.UniversalClient }

func (p prefixed) SetNX(ctx context.Context, key string, value any, d time.Duration) *redis.BoolCmd {
	return p.UniversalClient.SetNX(ctx, "app:"+key, value, d)
}

// A hook does what its function does with commands.
type hook func(next redis.ProcessHook) redis.ProcessHook

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return h(next) }
func (hook) DialHook(next redis.DialHook) redis.DialHook            { return next }
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func hooked(client *redis.Client, h hook) *redis.Client {
	client.AddHook(h)
	return client
}

// Clients of all kinds that programs have lock the same key, and their pools' connections do what redsync's do.
func TestClients(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	newClient := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: n.Addr()}) }
	client, calls := newClient(), 0
	conntest.Run(t, goredis.NewPool(client))
	traced := hooked(newClient(), func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error { calls++; return next(ctx, cmd) }
	})
	for name, c := range map[string]redis.UniversalClient{
		"a client":            client,
		"of a configuration":  redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{n.Addr()}}),
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
	assert.NotEqual(t, clientOfPool(goredis.NewPool(client)), clientOfPool(goredis.NewPool(prefixed{client})))
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
		"answers commands itself": hooked(client(), func(redis.ProcessHook) redis.ProcessHook {
			return func(_ context.Context, cmd redis.Cmder) error { cmd.(*redis.BoolCmd).SetVal(true); return nil }
		}),
		"as a mock does": hooked(client(), func(redis.ProcessHook) redis.ProcessHook {
			return func(_ context.Context, cmd redis.Cmder) error { cmd.SetErr(errors.New("unexpected")); return cmd.Err() }
		}),
		"its prefix to the names": hooked(client(), func(next redis.ProcessHook) redis.ProcessHook {
			return func(ctx context.Context, cmd redis.Cmder) error {
				cmd.Args()[1] = "app:" + cmd.Args()[1].(string)
				return next(ctx, cmd)
			}
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
