package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
)

// clientNames are the contenders, in the order of their turns. The first one is
// what the others are compared with.
var clientNames = []string{"redlock", "redsync", "redsync-failfast"}

// A client is one library in one configuration.
type client struct {
	name      string
	newWorker func() worker
	close     func()
}

// A worker locks and unlocks for one goroutine.
type worker interface {
	lock(ctx context.Context, key string) error
	unlock(ctx context.Context) error
	extend(ctx context.Context) error
}

// newClients returns the clients, or only one of them. Each is made for so many
// goroutines. The caller closes them with closeClients.
func newClients(addrs []string, ttl time.Duration, goroutines int, only string) ([]client, error) {
	var clients []client
	for _, name := range clientNames {
		if only != "" && only != name {
			continue
		}
		if name != "redlock" {
			clients = append(clients, newRedsync(name, addrs, ttl, goroutines, name == "redsync-failfast"))
			continue
		}
		c, err := newRedlock(name, addrs, ttl)
		if err != nil {
			closeClients(clients)
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func closeClients(clients []client) {
	for _, c := range clients {
		c.close()
	}
}

// openRedlock returns a Redlock over the nodes as the documentation shows it.
func openRedlock(addrs []string, opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(addr)
	}
	return redlock.New(nodes, opts...)
}

func newRedlock(name string, addrs []string, ttl time.Duration, opts ...redlock.Option) (client, error) {
	r, err := openRedlock(addrs, opts...)
	if err != nil {
		return client{}, err
	}
	return client{
		name:      name,
		newWorker: func() worker { return &redlockWorker{r: r, ttl: ttl} },
		close:     func() { _ = r.Close(context.Background()) },
	}, nil
}

type redlockWorker struct {
	r    *redlock.Redlock
	ttl  time.Duration
	held *redlock.Lock
}

func (w *redlockWorker) lock(ctx context.Context, key string) (err error) {
	w.held, err = w.r.TryLock(ctx, []string{key}, w.ttl)
	return err
}

func (w *redlockWorker) unlock(ctx context.Context) error { return w.held.Unlock(ctx) }

func (w *redlockWorker) extend(ctx context.Context) error { return w.held.Extend(ctx, w.ttl) }

// newRedsync sets redsync up as a careful user would: a pool for each node that
// keeps a connection for everybody who may want one at a time, and timeouts.
func newRedsync(name string, addrs []string, ttl time.Duration, goroutines int, failFast bool) client {
	const timeout = 500 * time.Millisecond
	pools := make([]*redis.Pool, len(addrs))
	adapted := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		pools[i] = &redis.Pool{
			// With fail-fast a goroutine goes on while the slower nodes still work on
			// its earlier calls, so it may use several connections to one node. A
			// connection that finds the pool full would be closed and dialled anew.
			MaxIdle: 4*goroutines + 16,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr,
					redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
			},
		}
		adapted[i] = redigo.NewPool(pools[i])
	}
	rs := redsync.New(adapted...)
	options := []redsync.Option{redsync.WithTries(1), redsync.WithExpiry(ttl), redsync.WithFailFast(failFast)}
	return client{
		name:      name,
		newWorker: func() worker { return &redsyncWorker{rs: rs, options: options} },
		close: func() {
			for _, p := range pools {
				_ = p.Close()
			}
		},
	}
}

type redsyncWorker struct {
	rs      *redsync.Redsync
	options []redsync.Option
	mutex   *redsync.Mutex
}

// lock uses its mutex again as long as the key is the same, which is how
// redsync allocates least.
func (w *redsyncWorker) lock(ctx context.Context, key string) error {
	if w.mutex == nil || w.mutex.Name() != key {
		w.mutex = w.rs.NewMutex(key, w.options...)
	}
	return w.mutex.LockContext(ctx)
}

func (w *redsyncWorker) unlock(ctx context.Context) error {
	ok, err := w.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("not unlocked")
	}
	return err
}

func (w *redsyncWorker) extend(ctx context.Context) error {
	ok, err := w.mutex.ExtendContext(ctx)
	if err == nil && !ok {
		err = errors.New("not extended")
	}
	return err
}
