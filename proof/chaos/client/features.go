package client

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// hurries has several callers of this process want the same at once, and that soon again: it goes from one to the next in turns.
func (c *client) hurries(ctx context.Context, rng *rand.Rand, e history.Event) {
	i, most := rng.IntN(3), len(c.cfg.Hot)
	if i < 2 {
		most = i + 1
	}
	hot := oneIn(rng, 2)
	var callers sync.WaitGroup
	for range 2 + rng.IntN(3) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		callers.Go(func() {
			for range 10 + own.IntN(20) {
				x := c.wish(own)
				x.Resources, x.MinHold, x.Polls, x.Turn = e.Resources, 0, false, int64(between(own, leastTurn, mostTurn))
				if hot {
					x.Resources = c.cfg.Hot[i : i+1+own.IntN(most-i)]
				}
				if !rest(ctx, between(own, 0, time.Millisecond)) {
					return
				}
				c.hurry(ctx, own, x)
			}
		})
	}
	callers.Wait()
}

// hurry is mostly done in a moment.
func (c *client) hurry(ctx context.Context, rng *rand.Rand, e history.Event) {
	briefly := between(rng, 0, 3*time.Millisecond)
	lot := rng.IntN(100)
	if lot < 10 {
		c.doesFor(ctx, e, briefly, lot < 3)
		return
	}
	h := c.lock(ctx, e, between(rng, 0, 2*time.Second))
	switch {
	case h == nil:
	case lot < 11:
		c.goesOn(ctx, rng, h)
	case lot < 12:
		c.forget(h)
	default:
		c.works(ctx, h, briefly)
		if lot < 20 { // Somebody else may have it by now, with the same keys on nodes.
			c.extend(ctx, h, c.ttl)
			c.unlock(ctx, h)
		}
	}
}
