package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/go-redis/redis/v8"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync/internal/conntest"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A wrapped client is one of a program's own, as many have.
type wrapped struct{ redis.UniversalClient }

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
	client := redis.NewClient(&redis.Options{Addr: n.Addr()})
	conntest.Run(t, goredis.NewPool(client))
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all").Err())
	for name, c := range map[string]redis.UniversalClient{
		"of a configuration": redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{n.Addr()}}),
		"with a password":    redis.NewClient(&redis.Options{Addr: n.Addr(), Username: "app", Password: "secret"}),
		"wrapped":            wrapped{client},
	} {
		t.Run(name, func(t *testing.T) {
			conntest.Locks(t, goredis.NewPool(c), goredis.NewPool(client), func(name string) string {
				return client.Get(t.Context(), name).Val()
			})
		})
	}
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
