package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// A behaviour is what a worker does, again and again, of a call that it has drawn.
type behaviour func(c *client, ctx context.Context, rng *rand.Rand, e history.Event)

// Clients that are broken on purpose, or whose nodes are: what each of them does instead of all else.
var broken = map[string]behaviour{
	"sits":  sits(), // No mistake: nodes make it.
	"hasty": (*client).tries,
	"drift": sits(redlock.WithDriftFactor(0)), // It says that it has the usual allowance.
}

// sits holds every lock until it ends, so that a node that forgets it is noticed.
func sits(opts ...redlock.Option) behaviour {
	return func(c *client, ctx context.Context, _ *rand.Rand, e history.Event) {
		if h := c.tryLock(ctx, with(c.lib.TryLock, opts...), e); h != nil {
			rest(ctx, time.Until(h.Until()))
			c.forget(h)
		}
	}
}
