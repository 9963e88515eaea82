package compat

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// redsyncClient is redsync on redigo.
type redsyncClient struct{ rs *redsync.Redsync }

func newRedsync(_ *testing.T, c *testcluster.Cluster) client {
	var pools []redsyncredis.Pool
	for _, n := range c.Nodes {
		pools = append(pools, redigo.NewPool(n.Pool()))
	}
	return redsyncClient{redsync.New(pools...)}
}

func (c redsyncClient) lock(ctx context.Context, keys []string, ttl time.Duration, wait bool) (held, error) {
	if len(keys) != 1 {
		return nil, errors.New("redsync locks one key")
	}
	tries := 1
	if wait {
		tries = math.MaxInt
	}
	m := c.rs.NewMutex(keys[0], redsync.WithTries(tries), redsync.WithExpiry(ttl),
		// redsync waits for a node no longer than this share of the ttl, and a busy machine is none that fails.
		redsync.WithTimeoutFactor(0.5),
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return pollDelay/2 + rand.N(pollDelay)
		}))
	err := m.LockContext(ctx)
	if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
		err = errors.Join(errTaken, err)
	}
	return redsyncHeld{m}, err
}

type redsyncHeld struct{ m *redsync.Mutex }

// extend cannot be told a ttl: redsync extends by that of the lock.
func (h redsyncHeld) extend(ctx context.Context, _ time.Duration) error {
	ok, err := h.m.ExtendContext(ctx)
	return refused(ok, err)
}

func (h redsyncHeld) unlock(ctx context.Context) error {
	ok, err := h.m.UnlockContext(ctx)
	return refused(ok, err)
}

func refused(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("redsync: not held by a quorum")
	}
	return err
}
