package libraries

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
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

// driverTimeout is that of the drivers of pooled connections: redsync passes its own, a
// twentieth of the ttl, to none of them for a command.
const driverTimeout = 500 * time.Millisecond

// MaxPool keeps all libraries together below the usual limits of open files.
const MaxPool = 700

var poolSetup = "pool of min(4 x goroutines + 16, " + strconv.Itoa(MaxPool) + ") connections a node"

// A driver connects redsync to nodes.
type driver struct {
	name, module, setup string
	open                func(o Opening) (pools []redsyncredis.Pool, end func(), err error)
}

var drivers = []driver{
	{"redigo", "github.com/gomodule/redigo", poolSetup + ", which callers wait for; timeouts of 500 ms", redigoPools},
	{
		"goredis", "github.com/redis/go-redis/v9", poolSetup + "; timeouts of 500 ms, ContextTimeoutEnabled, no retries",
		goredisPools,
	},
	{
		"rueidis", "github.com/redis/rueidis", "a client with its defaults for each node, which pipelines by itself",
		rueidisPools,
	},
}

// Redsync are all drivers, each as redsync is by default and with fail-fast.
var Redsync = func() (all []Library) {
	for _, d := range drivers {
		for _, failFast := range []bool{false, true} {
			name, setup := "redsync-"+d.name, d.setup+"; mutexes are used again"
			if failFast {
				name, setup = name+"-failfast", setup+"; WithFailFast"
			}
			all = append(all, Library{
				Name: name, Modules: []string{"github.com/go-redsync/redsync/v4", d.module}, Setup: setup,
				Open: func(o Opening) (Client, error) {
					pools, end, err := d.open(o)
					if err != nil {
						return Client{}, err
					}
					return redsyncClient(name, pools, end, o, failFast), nil
				},
			})
		}
	}
	return all
}()

// RedsyncOn is redsync as it is by default, on this driver.
func RedsyncOn(driver string) Library {
	return Redsync[slices.IndexFunc(Redsync, func(l Library) bool { return l.Name == "redsync-"+driver })]
}

func redsyncClient(name string, pools []redsyncredis.Pool, end func(), o Opening, failFast bool) Client {
	rs := redsync.New(pools...)
	options := []redsync.Option{redsync.WithExpiry(o.TTL), redsync.WithFailFast(failFast)}
	return Client{
		Name:      name,
		NewWorker: func() Worker { return &redsyncWorker{rs: rs, options: options, drawn: o.Drawn} },
		Close:     end,
	}
}

// redigoPools keeps every connection that it has made: one that finds the pool full would be closed and dialled anew.
// Without a size the pools are those of redigo's own example.
func redigoPools(o Opening) (adapted []redsyncredis.Pool, end func(), err error) {
	var pools []*redis.Pool
	for _, addr := range o.Addrs {
		p := &redis.Pool{MaxIdle: o.Connections, MaxActive: o.Connections, Wait: true}
		if o.Connections == 0 {
			p = &redis.Pool{MaxIdle: 3, IdleTimeout: 240 * time.Second}
		}
		p.DialContext = func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(driverTimeout),
				redis.DialReadTimeout(driverTimeout), redis.DialWriteTimeout(driverTimeout))
		}
		pools, adapted = append(pools, p), append(adapted, redigo.NewPool(p))
	}
	return adapted, func() {
		for _, p := range pools {
			_ = p.Close()
		}
	}, nil
}

// newGoredis returns a go-redis client for one node. With a size it tries each command once, as all do in
// the benchmarks. It observes the timeouts that a library passes to it.
func newGoredis(addr string, size int) *goredis.Client {
	o := &goredis.Options{Addr: addr, ContextTimeoutEnabled: true}
	if size > 0 {
		o.PoolSize, o.MaxRetries = size, -1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = driverTimeout, driverTimeout, driverTimeout
	}
	return goredis.NewClient(o)
}

func goredisPools(o Opening) (adapted []redsyncredis.Pool, end func(), err error) {
	var clients []*goredis.Client
	for _, addr := range o.Addrs {
		c := newGoredis(addr, o.Connections)
		clients, adapted = append(clients, c), append(adapted, redsyncgoredis.NewPool(c))
	}
	return adapted, func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}, nil
}

func rueidisPools(o Opening) (adapted []redsyncredis.Pool, end func(), err error) {
	var clients []rueidis.Client
	end = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, addr := range o.Addrs {
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
	drawn   func(ctx context.Context, value string)
}

// use keeps its mutex as long as the key is the same, which is how redsync allocates
// least. Where somebody looks, its value is drawn as redsync would.
func (w *redsyncWorker) use(ctx context.Context, key string) *redsync.Mutex {
	if w.drawn == nil && w.mutex != nil && w.mutex.Name() == key {
		return w.mutex
	}
	w.mutex = w.rs.NewMutex(key, w.options...)
	if w.drawn != nil {
		redsync.WithGenValueFunc(func() (string, error) {
			value := rand.Text()
			w.drawn(ctx, value)
			return value, nil
		}).Apply(w.mutex)
	}
	return w.mutex
}

func (w *redsyncWorker) Try(ctx context.Context, key string) error {
	return w.use(ctx, key).TryLockContext(ctx)
}

func (w *redsyncWorker) Lock(ctx context.Context, key string, wait time.Duration) error {
	ctx, cancel := within(ctx, wait)
	defer cancel()
	return w.use(ctx, key).LockContext(ctx)
}

func (w *redsyncWorker) Unlock(ctx context.Context) error { return refused(w.mutex.UnlockContext(ctx)) }

func (w *redsyncWorker) Extend(ctx context.Context) error { return refused(w.mutex.ExtendContext(ctx)) }
func (w *redsyncWorker) Until() time.Time                 { return w.mutex.Until() }
func (w *redsyncWorker) Lost() <-chan struct{}            { return nil }
