package goredis_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
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
	"github.com/seed6c881748/redlock/redlock"
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

func clientOf(t *testing.T, n *testcluster.Node) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: n.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Clients of all kinds that programs have lock the same key.
func TestClients(t *testing.T) {
	n := testcluster.RunServers(t, 1).Nodes[0]
	client, calls := clientOf(t, n), 0
	traced := hooked(clientOf(t, n), func(context.Context, redis.Cmder) error { calls++; return nil })
	for name, c := range map[string]redis.UniversalClient{
		"a client":            client,
		"of a configuration":  redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{n.Addr()}}),
		"wrapped":             wrapped{client},
		"twice":               &wrapped{&embedded{client}},
		"with a tracing hook": traced,
	} {
		t.Run(name, func(t *testing.T) {
			m := redsync.New(goredis.NewPool(c)).NewMutex("x")
			require.NoError(t, m.Lock())
			assert.Equal(t, m.Value(), client.Get(t.Context(), "x").Val())
			var taken *redsync.ErrTaken
			require.ErrorAs(t, redsync.New(goredis.NewPool(client)).NewMutex("x").TryLock(), &taken)
			_, err := m.Unlock()
			require.NoError(t, err)
			require.Zero(t, client.Exists(t.Context(), "x").Val())
		})
	}
	assert.Equal(t, 1, calls, "what asks whether the hook passes commands on")
	assert.Equal(t, goredis.NewPool(client).(redsyncredis.NodePool).Client(), goredis.NewPool(&wrapped{client}).(redsyncredis.NodePool).Client())
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
		"*redis.Ring":          redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "a:1"}, Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("forbidden") }, HeartbeatFrequency: time.Hour}),
		"closed":               closed,
		"answers commands itself": hooked(client(), func(_ context.Context, cmd redis.Cmder) error {
			cmd.(*redis.BoolCmd).SetVal(true)
			return errors.New("answered")
		}),
		"its prefix to the names": hooked(client(), func(_ context.Context, cmd redis.Cmder) error {
			cmd.Args()[1] = "app:" + cmd.Args()[1].(string)
			return nil
		}),
		"without that hook": prefixed{client()},
	} {
		err := redsync.New(goredis.NewPool(c)).NewMutex("x").Lock()
		require.ErrorContains(t, err, says)
		require.NotErrorIs(t, err, redsync.ErrFailed)
		require.NotErrorIs(t, err, redlock.ErrTaken)
	}
}

// What a client's settings cannot be for mutexes is logged.
func TestWarnings(t *testing.T) {
	on := func(context.Context, *redis.Conn) error { return nil }
	const lost, elsewhere = "two may hold one", "if it selects a database"
	for _, of := range []struct {
		client *redis.Client
		says   []string
	}{
		{redis.NewClient(&redis.Options{}), nil},
		{redis.NewClient(&redis.Options{OnConnect: on}), []string{elsewhere}},
		{redis.NewFailoverClient(&redis.FailoverOptions{}), []string{lost}},
		{redis.NewFailoverClient(&redis.FailoverOptions{OnConnect: on}), []string{lost, elsewhere}},
	} {
		_, warning, err := goredis.NewPool(of.client).(redsyncredis.NodePool).Node()
		require.NoError(t, err)
		for _, says := range []string{lost, elsewhere} {
			assert.Equal(t, slices.Contains(of.says, says), strings.Contains(warning, says), warning)
		}
		require.NoError(t, of.client.Close())
	}
}

// What changes commands is not taken for the client that it embeds, even if that one is in use.
func TestAWrapperIsNotTheClientInUse(t *testing.T) {
	client := clientOf(t, testcluster.RunServers(t, 1).Nodes[0])
	require.NoError(t, redsync.New(goredis.NewPool(client)).NewMutex("x").Lock())
	err := redsync.New(goredis.NewPool(prefixed{client})).NewMutex("x").Lock()
	require.ErrorContains(t, err, "without that hook")
	require.NotErrorIs(t, err, redlock.ErrTaken)
}

// A pool's connections do what redsync's do.
func TestConn(t *testing.T) {
	conntest.Run(t, goredis.NewPool(clientOf(t, testcluster.RunServers(t, 1).Nodes[0])))
}
