// Package compat has other Redlock clients contend with this library for the same keys on the
// same real servers: redsync, and node-redlock 4 and 5, which run in processes of their own.
//
// It is a module of its own, so that the library depends on none of them. The node-redlocks
// need node and npm, which installs what node/package-lock.json names. Where they are
// missing, their tests are skipped, and fail if CI=true.
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
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A client locks in the way of one library, or of one version of it.
type client interface {
	// lock takes all keys or none, for longTTL. It retries while they are taken.
	lock(ctx context.Context, keys []string) (held, error)
}

// held is a lock that a client has.
type held interface {
	extend(ctx context.Context) error // by longTTL
	unlock(ctx context.Context) error
}

// A kind is a library as its users set it up.
type kind struct {
	name    string
	oneKey  bool // It has no locks of several keys.
	connect func(t *testing.T, c *testcluster.Cluster) client
}

// kinds are all clients that may share keys.
var kinds = []kind{
	{name: "redlock", connect: newOurs()},
	{name: "redlock-fencing-owner", connect: newOurs(redlock.WithFencing(), redlock.WithOwner("compat"))},
	{name: "redlock-polling", connect: newOurs(redlock.WithPolling(), redlock.WithRetryDelay(pollDelay), redlock.WithRetryJitter(pollDelay/2))},
	{name: "redsync", oneKey: true, connect: newRedsync},
	{name: "node-redlock-4", connect: newAgent("4")},
	{name: "node-redlock-5", connect: newAgent("5")},
}

// pollDelay is how often clients ask again that learn of releases in no other way.
const pollDelay = 10 * time.Millisecond

// ours is this library.
type ours struct{ r *redlock.Redlock }

func newOurs(opts ...redlock.Option) func(t *testing.T, c *testcluster.Cluster) client {
	return func(t *testing.T, c *testcluster.Cluster) client {
		t.Helper()
		// On a busy machine a slow node is not a lost one.
		return ours{testkit.NewOver(t, testkit.ServerNodes(c), append([]redlock.Option{redlock.WithNodeTimeout(10 * time.Second)}, opts...)...)}
	}
}

func (o ours) lock(ctx context.Context, keys []string) (held, error) {
	l, err := o.r.Lock(ctx, keys, longTTL, redlock.WithRetryCount(-1))
	return oursHeld{l}, err
}

type oursHeld struct{ l *redlock.Lock }

func (h oursHeld) extend(ctx context.Context) error { return h.l.Extend(ctx, longTTL) }
func (h oursHeld) unlock(ctx context.Context) error { return h.l.Unlock(ctx) }

// redsyncClient is redsync on redigo.
type redsyncClient struct{ rs *redsync.Redsync }

func newRedsync(_ *testing.T, c *testcluster.Cluster) client {
	var pools []redsyncredis.Pool
	for _, n := range c.Nodes {
		pools = append(pools, redigo.NewPool(n.Pool()))
	}
	return redsyncClient{redsync.New(pools...)}
}

func (c redsyncClient) lock(ctx context.Context, keys []string) (held, error) {
	if len(keys) != 1 {
		return nil, errors.New("redsync locks one key")
	}
	m := c.rs.NewMutex(keys[0], redsync.WithTries(math.MaxInt), redsync.WithExpiry(longTTL),
		// redsync waits for a node no longer than this share of the ttl, and a busy machine is none that fails.
		redsync.WithTimeoutFactor(0.5),
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return pollDelay/2 + rand.N(pollDelay)
		}))
	return redsyncHeld{m}, m.LockContext(ctx)
}

type redsyncHeld struct{ m *redsync.Mutex }

func (h redsyncHeld) extend(ctx context.Context) error { return success(h.m.ExtendContext(ctx)) }
func (h redsyncHeld) unlock(ctx context.Context) error { return success(h.m.UnlockContext(ctx)) }

func success(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("redsync: not held by a quorum")
	}
	return err
}
