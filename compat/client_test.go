package compat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A client locks in the way of one library, or of one version of it.
type client interface {
	// lock takes all keys or none. It retries while they are taken, if wait is set, and else
	// fails with errTaken.
	lock(ctx context.Context, keys []string, ttl time.Duration, wait bool) (held, error)
}

// held is a lock that a client has.
type held interface {
	extend(ctx context.Context, ttl time.Duration) error
	unlock(ctx context.Context) error
}

// errTaken matches the failures that say that others have a key, or split the votes.
var errTaken = errors.New("taken")

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

func (o ours) lock(ctx context.Context, keys []string, ttl time.Duration, wait bool) (held, error) {
	retries := 0
	if wait {
		retries = -1
	}
	l, err := o.r.Lock(ctx, keys, ttl, redlock.WithRetryCount(retries))
	if errors.Is(err, redlock.ErrTaken) {
		err = errors.Join(errTaken, err)
	}
	return oursHeld{l}, err
}

type oursHeld struct{ l *redlock.Lock }

func (h oursHeld) extend(ctx context.Context, ttl time.Duration) error { return h.l.Extend(ctx, ttl) }
func (h oursHeld) unlock(ctx context.Context) error                    { return h.l.Unlock(ctx) }
