// Package redigo makes pools of redigo's for redsync.New, as github.com/go-redsync/redsync/v4/redis/redigo does.
package redigo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

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
	if ctx == nil {
		return &conn{p.delegate.Get()}, nil
	}
	c, err := p.delegate.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{c}, nil
}

// A conn sends commands. Nil is no error.
type conn struct{ delegate redis.Conn }

func (c *conn) do(command string, args ...any) (any, error) {
	reply, err := c.delegate.Do(command, args...)
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return reply, err
}

func (c *conn) text(command string, args ...any) (string, error) {
	text, err := redis.String(c.do(command, args...))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return text, err
}

func (c *conn) Get(name string) (string, error) { return c.text("GET", name) }

func (c *conn) Set(name, value string) (bool, error) {
	text, err := c.text("SET", name, value)
	return text == "OK", err
}

func (c *conn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	text, err := c.text("SET", name, value, "NX", "PX", expiry.Milliseconds())
	return text == "OK", err
}

func (c *conn) PTTL(name string) (time.Duration, error) {
	ms, err := redis.Int64(c.do("PTTL", name))
	return time.Duration(ms) * time.Millisecond, err
}

func (c *conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	count := []any{script.KeyCount}
	if script.KeyCount < 0 {
		count = nil
	}
	args := append(count, keysAndArgs...)
	reply, err := c.do("EVALSHA", append([]any{script.Hash}, args...)...)
	var refused redis.Error
	if errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOSCRIPT ") {
		return c.do("EVAL", append([]any{script.Src}, args...)...)
	}
	return reply, err
}

func (c *conn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := redis.String(c.do("SCRIPT", "LOAD", script.Src))
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (c *conn) Close() error { return c.delegate.Close() }
