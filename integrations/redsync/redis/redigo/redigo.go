// Package redigo makes pools of redigo's for redsync.New, as github.com/go-redsync/redsync/v4/redis/redigo does.
package redigo

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/integrations/redsync/internal/pools"
	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

// A Pool hands out connections to one server, as a *redis.Pool does.
type Pool interface {
	Get() redis.Conn
	GetContext(ctx context.Context) (redis.Conn, error)
}

type pool struct{ delegate Pool }

// NewPool returns a pool for redsync.New. Mutexes lock on connections of delegate, and keep two of them while they are
// used, and for some seconds after that; see [redlock.Pool] for what it must allow.
func NewPool(delegate Pool) redsyncredis.Pool { return &pool{delegate} }

// Client returns redigo's pool.
func (p *pool) Client() any { return p.delegate }

// Node returns the node of the pool.
func (p *pool) Node() (node redlock.Node, warning string, err error) {
	if p.delegate == nil {
		return node, "", errors.New("redigo.NewPool was given nil")
	}
	return redlock.Node{Pool: p.delegate}, "", nil
}

// Get returns a connection of the pool.
func (p *pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return pools.NewConn(c.Do, redis.ErrNil, c.Close), nil
}

func (p *pool) get(ctx context.Context) (redis.Conn, error) {
	if ctx == nil { // redsync allows it.
		return p.delegate.Get(), nil
	}
	return p.delegate.GetContext(ctx)
}
