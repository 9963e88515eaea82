// Package goredis makes clients of go-redis v9 for redsync.New, as github.com/go-redsync/redsync/v4/redis/goredis/v9 does.
package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	redlockgoredis "github.com/seed6c881748/redlock/integrations/goredis"
	"github.com/seed6c881748/redlock/integrations/redsync/internal/pools"
	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

type pool struct{ delegate redis.UniversalClient }

// NewPool returns a pool for redsync.New. Mutexes lock on connections of their own, which are made as the client makes its:
// by its dialer, with its TLS configuration, credentials, database and client name. Its pool, timeouts, retries, hooks
// and OnConnect do not apply: a hook that dials elsewhere belongs into Options.Dialer, and the database of an OnConnect into
// Options.DB, or the locks are not where the other commands go. An OnConnect is logged.
//
// A client leads to one master: a *redis.Client, or what embeds one. That of a Sentinel is one node, with a warning: after a
// failover, two may hold a lock. With a Cluster client, a Ring, a client that answers commands itself, as a mock does, or
// one with a hook that changes them, each call of a mutex fails with an error that says what to do. To find out, NewPool's
// client gets one SETNX, with a context that has ended, so that nothing is sent.
func NewPool(delegate redis.UniversalClient) redsyncredis.Pool { return &pool{delegate} }

// Client returns the *redis.Client that leads to the server. What embeds it is the same client if it changes no commands.
func (p *pool) Client() any {
	if c, ok := p.delegate.(*redis.Client); ok {
		return c
	}
	if c, ok := p.inner().(*redis.Client); ok && c != nil && p.passes() == nil {
		return c
	}
	return p
}

// Node returns the node of the client's server.
func (p *pool) Node() (node redlock.Node, warning string, err error) {
	client, ok := p.inner().(*redis.Client)
	switch {
	case p.delegate == nil, ok && client == nil:
		return node, "", pools.ErrNil
	case !ok:
		return node, "", pools.ManyServers(p.inner())
	}
	if err := p.passes(); err != nil {
		return node, "", err
	}
	o := client.Options()
	if node = redlockgoredis.FailoverNode(client); o.Addr == pools.FailoverAddr {
		node.Name = ""
	}
	return node, pools.Warning(o.Addr, o.OnConnect != nil), nil
}

// inner returns the client that others embed.
func (p *pool) inner() redis.UniversalClient {
	return pools.Inner(p.delegate, func(c redis.UniversalClient) bool {
		switch c.(type) {
		case *redis.Client, *redis.ClusterClient, *redis.Ring:
			return true
		}
		return false
	})
}

// passes returns an error if the client does not hand a lock's command on as it is.
func (p *pool) passes() error {
	return pools.Passes(redis.ErrClosed, func(ended context.Context, key string) pools.Command {
		return p.delegate.SetNX(ended, key, "", time.Second)
	})
}

// Get returns a connection, which is the client itself: nothing is closed.
func (p *pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	if ctx == nil {
		ctx = context.Background() //nolint:contextcheck // redsync allows a nil context.
	}
	return pools.NewConn(func(command string, args ...any) (any, error) {
		return p.delegate.Do(ctx, append([]any{command}, args...)...).Result()
	}, redis.Nil, nil), nil
}
