package locker

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// driverTimeout bounds redigo's commands, which have no bound by default: with it, redsync is at its best.
const driverTimeout = 500 * time.Millisecond

type redsyncLibrary struct {
	rs  *redsync.Redsync
	ttl time.Duration
}

func openRedsyncRedigo(addrs []string, ttl time.Duration) (Library, error) {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, redigo.NewPool(&redis.Pool{
			MaxIdle: 3, IdleTimeout: 240 * time.Second, // As in redigo's own example.
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(driverTimeout),
					redis.DialReadTimeout(driverTimeout), redis.DialWriteTimeout(driverTimeout))
			},
		}))
	}
	return &redsyncLibrary{redsync.New(pools...), ttl}, nil
}

func openRedsyncGoredis(addrs []string, ttl time.Duration) (Library, error) {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		// Without ContextTimeoutEnabled, redsync's own timeout would not reach a command.
		pools = append(pools, redsyncgoredis.NewPool(goredis.NewClient(&goredis.Options{
			Addr: addr, ContextTimeoutEnabled: true,
		})))
	}
	return &redsyncLibrary{redsync.New(pools...), ttl}, nil
}

// mutex has redsync's defaults. Its value is drawn as redsync would, where it can be seen.
func (l *redsyncLibrary) mutex(ctx context.Context, resource string) *redsync.Mutex {
	return l.rs.NewMutex(resource, redsync.WithExpiry(l.ttl), redsync.WithGenValueFunc(func() (string, error) {
		value := rand.Text()
		drew(ctx, value)
		return value, nil
	}))
}

func (l *redsyncLibrary) Try(ctx context.Context, resource string) (Held, error) {
	m := l.mutex(ctx, resource)
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{m}, nil
}

func (l *redsyncLibrary) Lock(ctx context.Context, resource string, wait time.Duration) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m := l.mutex(ctx, resource)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{m}, nil
}

type redsyncHeld struct{ m *redsync.Mutex }

func (h redsyncHeld) Until() time.Time      { return h.m.Until() }
func (h redsyncHeld) Lost() <-chan struct{} { return nil }
func (h redsyncHeld) Keep(time.Duration)    {}

func (h redsyncHeld) Extend(ctx context.Context) error {
	return refused(h.m.ExtendContext(ctx))
}

func (h redsyncHeld) Unlock(ctx context.Context) error {
	return refused(h.m.UnlockContext(ctx))
}

func refused(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("redsync: not held by a quorum")
	}
	return err
}
