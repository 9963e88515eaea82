package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redsyncTimeout is that of the drivers of pooled connections: redsync passes its own, a
// twentieth of the ttl, to none of them for a command.
const redsyncTimeout = 500 * time.Millisecond

const redsyncModule = "github.com/go-redsync/redsync/v4"

// A redsyncDriver connects redsync to nodes.
type redsyncDriver struct {
	name, module, setup string
	open                func(o opening) (pools []redsyncredis.Pool, end func(), err error)
}

var redsyncDrivers = []redsyncDriver{
	{
		"redigo", "github.com/gomodule/redigo", poolSetup + ", which callers wait for; timeouts of 500 ms",
		func(o opening) ([]redsyncredis.Pool, func(), error) {
			pools, end := redigoPools(o.addrs, poolSize(o.goroutines))
			return pools, end, nil
		},
	},
	{
		"goredis", "github.com/redis/go-redis/v9", poolSetup + "; timeouts of 500 ms, ContextTimeoutEnabled, no retries",
		goredisPools,
	},
	{
		"rueidis", "github.com/redis/rueidis", "a client with its defaults for each node, which pipelines by itself",
		rueidisPools,
	},
}

// redsyncLibraries are all drivers, each as redsync is by default and with fail-fast.
var redsyncLibraries = func() (all []library) {
	for _, d := range redsyncDrivers {
		for _, failFast := range []bool{false, true} {
			name, setup := "redsync-"+d.name, d.setup+"; mutexes are used again"
			if failFast {
				name, setup = name+"-failfast", setup+"; WithFailFast"
			}
			all = append(all, library{
				name: name, modules: []string{redsyncModule, d.module}, setup: setup,
				open: func(name string, o opening) (client, error) {
					pools, end, err := d.open(o)
					if err != nil {
						return client{}, err
					}
					return redsyncClient(name, pools, end, o.ttl, failFast), nil
				},
			})
		}
	}
	return all
}()

// newRedsync returns redsync on redigo, with a connection for everybody who may want one.
func newRedsync(name string, addrs []string, ttl time.Duration, goroutines int, failFast bool) client {
	pools, end := redigoPools(addrs, 4*goroutines+16)
	return redsyncClient(name, pools, end, ttl, failFast)
}

func redsyncClient(name string, pools []redsyncredis.Pool, end func(), ttl time.Duration, failFast bool) client {
	rs := redsync.New(pools...)
	options := []redsync.Option{redsync.WithTries(1), redsync.WithExpiry(ttl), redsync.WithFailFast(failFast)}
	return client{
		name:      name,
		newWorker: func() worker { return &redsyncWorker{rs: rs, options: options} },
		close:     end,
	}
}

// redigoPools keeps every connection that it has made: one that finds the pool full would
// be closed and dialled anew.
func redigoPools(addrs []string, size int) (adapted []redsyncredis.Pool, end func()) {
	var pools []*redis.Pool
	for _, addr := range addrs {
		p := &redis.Pool{
			MaxIdle: size, MaxActive: size, Wait: true,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(redsyncTimeout),
					redis.DialReadTimeout(redsyncTimeout), redis.DialWriteTimeout(redsyncTimeout))
			},
		}
		pools, adapted = append(pools, p), append(adapted, redigo.NewPool(p))
	}
	return adapted, func() {
		for _, p := range pools {
			_ = p.Close()
		}
	}
}

// newGoredis returns a go-redis client for one node. It tries each command once, as all do
// here, and observes the timeouts that a library passes to it.
func newGoredis(addr string, size int) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, PoolSize: size, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: redsyncTimeout, ReadTimeout: redsyncTimeout, WriteTimeout: redsyncTimeout,
	})
}

func goredisPools(o opening) (adapted []redsyncredis.Pool, end func(), err error) {
	var clients []*goredis.Client
	for _, addr := range o.addrs {
		c := newGoredis(addr, poolSize(o.goroutines))
		clients, adapted = append(clients, c), append(adapted, redsyncgoredis.NewPool(c))
	}
	return adapted, func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}, nil
}

func rueidisPools(o opening) (adapted []redsyncredis.Pool, end func(), err error) {
	var clients []rueidis.Client
	end = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, addr := range o.addrs {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			end()
			return nil, nil, err
		}
		clients, adapted = append(clients, c), append(adapted, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(c)))
	}
	return adapted, end, nil
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
