// Package goredis makes clients of go-redis v8 for redsync.New, as github.com/go-redsync/redsync/v4/redis/goredis/v8 does.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/go-redis/redis/v8"

	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/dial"
)

type pool struct{ delegate redis.UniversalClient }

// NewPool returns a pool for redsync.New. Mutexes lock on connections of their own, which are made as the client makes its:
// by its dialer, with its TLS configuration, credentials and database. Its pool, timeouts, retries, hooks
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
	if c, ok := inner(p.delegate).(*redis.Client); ok && c != nil && passes(p.delegate) == nil {
		return c
	}
	return p
}

// Node returns the node of the client's server.
func (p *pool) Node() (node redlock.Node, warning string, err error) {
	client, ok := inner(p.delegate).(*redis.Client)
	switch {
	case p.delegate == nil, ok && client == nil:
		return node, "", errors.New("goredis.NewPool was given nil")
	case !ok:
		return node, "", fmt.Errorf("goredis.NewPool was given a %T, which may lead to several servers: "+
			"give it a redis.NewClient for one master, or one for each of several independent masters", inner(p.delegate))
	}
	if err := passes(p.delegate); err != nil {
		return node, "", err
	}
	if client.Options().OnConnect != nil {
		warning = onConnect
	}
	node = nodeOf(client.Options())
	if client.Options().Addr != failoverAddr {
		return node, warning, nil
	}
	node.Name = ""
	return node, strings.TrimPrefix(warning+"; "+sentinel, "; "), nil
}

func nodeOf(o *redis.Options) redlock.Node {
	return dial.Server{
		Address: o.Addr, Database: o.DB,
		Dial: func(ctx context.Context) (net.Conn, error) { return o.Dialer(ctx, o.Network, o.Addr) },
		Credentials: func(context.Context, net.Addr) (user, password string, err error) {
			if o.Password == "" {
				return "", "", nil // go-redis does not log in.
			}
			return o.Username, o.Password, nil
		},
	}.Node()
}

// The warnings.
const (
	sentinel = "a client of a Sentinel leads to a replica after a failover, which may lack the latest locks: " +
		"two may hold one then; independent masters have no such gap"
	onConnect = "OnConnect of the client of go-redis is not called for the connections of mutexes: " +
		"if it selects a database, say so in the client's Options instead, or the locks are in another one"
)

// failoverAddr is what go-redis gives a failover client for an address.
const failoverAddr = "FailoverClient"

// inner returns the client that others embed.
func inner(c redis.UniversalClient) redis.UniversalClient {
	for {
		switch c.(type) {
		case *redis.Client, *redis.ClusterClient, *redis.Ring:
			return c
		}
		next := embedded(c)
		if next == nil {
			return c
		}
		c = next
	}
}

// embedded returns the client that a struct embeds; nil if there is none.
func embedded(c redis.UniversalClient) redis.UniversalClient {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.IsExported() {
			if next, ok := v.Field(i).Interface().(redis.UniversalClient); ok {
				return next
			}
		}
	}
	return nil
}

// passes returns an error if the client does not hand a lock's command on as it is.
func passes(c redis.UniversalClient) error {
	const key = "__redlock__:probe"
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	cmd := c.SetNX(ended, key, "", time.Second)
	switch args := cmd.Args(); {
	case errors.Is(cmd.Err(), redis.ErrClosed):
		return errors.New("the client of go-redis is closed")
	case !errors.Is(cmd.Err(), context.Canceled):
		return fmt.Errorf("the client of go-redis answers commands itself, as a mock does (SETNX: %v), and mutexes do not send theirs through it: "+
			"in a test, use a server, such as miniredis", cmd)
	case len(args) < 2 || args[1] != key:
		return fmt.Errorf("a hook of the client of go-redis, or what embeds it, makes %.200q of the key %q, and mutexes do not send their commands through it: "+
			"give goredis.NewPool a client without that hook, and its prefix to the names of mutexes", fmt.Sprint(args), key)
	}
	return nil
}

// Get returns a connection, which is the client itself.
func (p *pool) Get(ctx context.Context) (redsyncredis.Conn, error) { //nolint:contextcheck // redsync allows a nil context.
	if ctx == nil {
		ctx = context.Background()
	}
	return &conn{p.delegate, ctx}, nil
}

// A conn sends commands. Nil is no error.
type conn struct {
	delegate redis.UniversalClient
	ctx      context.Context //nolint:containedctx // It has no other way to the commands.
}

func (c *conn) Get(name string) (string, error) {
	text, err := c.delegate.Get(c.ctx, name).Result()
	return text, notNil(err)
}

func (c *conn) Set(name, value string) (bool, error) {
	text, err := c.delegate.Set(c.ctx, name, value, 0).Result()
	return text == "OK", err
}

func (c *conn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	return c.delegate.SetNX(c.ctx, name, value, expiry).Result()
}

func (c *conn) PTTL(name string) (time.Duration, error) {
	return c.delegate.PTTL(c.ctx, name).Result()
}

func (c *conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	keys := make([]string, max(script.KeyCount, 0))
	for i := range keys {
		keys[i] = fmt.Sprint(keysAndArgs[i])
	}
	args := keysAndArgs[len(keys):]
	reply, err := c.delegate.EvalSha(c.ctx, script.Hash, keys, args...).Result()
	if err != nil && strings.Contains(err.Error(), "NOSCRIPT ") {
		reply, err = c.delegate.Eval(c.ctx, script.Src, keys, args...).Result()
	}
	return reply, notNil(err)
}

func (c *conn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.delegate.ScriptLoad(c.ctx, script.Src).Result()
	if err == nil {
		script.Hash = hash
	}
	return err
}

// Close does nothing: the client is the user's.
func (c *conn) Close() error { return nil }

func notNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
