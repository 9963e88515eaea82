package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// What is broken of the features: mostly, a client says that it has asked for something, and has not.

// forgetsMinHold releases its locks too early.
func (c *client) forgetsMinHold(ctx context.Context, _ *rand.Rand, resources []string) {
	e := history.Event{Resources: resources[:1], MinHold: int64(500 * time.Millisecond)}
	if h := c.await(ctx, c.lib, time.Second, e); h != nil {
		c.unlock(ctx, h)
	}
}

// forgetsMaxHold holds its locks for longer than it was to.
func (c *client) forgetsMaxHold(ctx context.Context, _ *rand.Rand, resources []string) {
	c.holdsFor(ctx, resources, 100*time.Millisecond)
}

// stopsLate goes on until its locks end.
func (c *client) stopsLate(ctx context.Context, rng *rand.Rand, resources []string) {
	c.stops(ctx, rng, resources, 900*time.Millisecond)
}

// hearsOfNobody is not told who waits.
func (c *client) hearsOfNobody(ctx context.Context, rng *rand.Rand, _ []string) {
	c.holdsUntil(ctx, rng, func(*redlock.Lock) <-chan struct{} { return nil })
}

// takesOneMore has a permit more than others.
func (c *client) takesOneMore(ctx context.Context, _ *rand.Rand, _ []string) {
	c.takesOf(ctx, &permits{name: "sem/0", k: 2}, 3)
}

// takesTooOften has permits that are free at once.
func (c *client) takesTooOften(ctx context.Context, _ *rand.Rand, _ []string) {
	c.takesOf(ctx, &permits{name: "sem/1", k: 3, period: time.Second}, 3)
}

// takesOf takes a permit of k.
func (c *client) takesOf(ctx context.Context, s *permits, k int) {
	var err error
	if s.Semaphore, err = semaphore.New(c.lib, s.name, k, c.ttl); err != nil { //nolint:contextcheck // It asks nobody.
		return
	}
	if h := c.acquirePermit(ctx, s, time.Second); h != nil {
		rest(ctx, c.ttl/4)
		c.unlock(ctx, h)
	}
}

// guardsNothing lets everybody write.
func (c *client) guardsNothing(ctx context.Context, rng *rand.Rand, _ []string) {
	c.comeTo(ctx, rng, func(_ int64, write func() error) error { return write() })
}

// bearsAnotherName has the label of somebody else.
func (c *client) bearsAnotherName(ctx context.Context, _ *rand.Rand, resources []string) {
	misnamed := func(ctx context.Context, resources []string, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, error) {
		return c.lib.TryLock(ctx, resources, ttl, append(opts, redlock.WithOwner("c9"))...)
	}
	if h := c.acquire(ctx, history.OpTryLock, misnamed, resources, time.Minute); h != nil {
		rest(ctx, c.ttl/4)
		c.unlock(ctx, h)
	}
}
