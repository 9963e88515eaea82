package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// lapses leaves most of its locks to expire, so that those who wait come at the expiry and not at a release: what clocks do
// matters there.
func (c *client) lapses(ctx context.Context, rng *rand.Rand, resource string) {
	for rest(ctx, between(rng, 0, 20*time.Millisecond)) {
		var h *held
		if oneIn(rng, 2) {
			h = c.lock(ctx, c.plain(resource), 2*c.ttl)
		} else {
			h = c.pounce(ctx, rng, c.plain(resource))
		}
		if h == nil {
			continue
		}
		c.section(ctx, h, 0, "")
		if oneIn(rng, 5) {
			c.unlock(ctx, h)
		} else {
			c.forget(h)
		}
	}
}

// pounce asks again and again around the moment at which the holder's lock expires.
func (c *client) pounce(ctx context.Context, rng *rand.Rand, e history.Event) (h *held) {
	left := time.Duration(0)
	try := func(ctx context.Context, resources []string, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, error) {
		lock, err := c.of(e).TryLock(ctx, resources, ttl, opts...)
		left = 50 * time.Millisecond // Unless they say so.
		if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) {
			for _, v := range refused.Votes {
				if v.HolderTTL > 0 {
					left = v.HolderTTL
				}
			}
		}
		return lock, err
	}
	for tries := 0; h == nil && tries < 50 && rest(ctx, left+between(rng, -15*time.Millisecond, 3*time.Millisecond)); tries++ {
		h = c.tryLock(ctx, try, e)
	}
	return h
}

// tenure is how many ttl a hold lasts that is not for good.
const tenure = 10

// leads holds a resource as a leader does: whoever has it keeps it until it is lost, and does a little now and then. If it
// is not for good, the next one has it after ten ttl.
func (c *client) leads(ctx context.Context, resource string, forGood bool) {
	for ctx.Err() == nil {
		h := c.lock(ctx, c.plain(resource), 4*c.ttl)
		if h == nil {
			continue
		}
		h.careless = false
		done := c.keep(ctx, h)
		end := time.Now().Add(tenure * c.ttl)
		for ctx.Err() == nil && h.kept.Err() == nil && (forGood || time.Now().Before(end)) {
			c.section(ctx, h, 0, "")
			c.pause(ctx, h, c.ttl/4)
		}
		c.unlock(ctx, h)
		done()
	}
}
