package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock/semaphore"
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

// permits is a semaphore: at most k at a time, and in each period.
type permits struct {
	*semaphore.Semaphore
	name   string
	k      int
	period time.Duration
}

// takesPermit works under a permit.
func (c *client) takesPermit(ctx context.Context, rng *rand.Rand, _ history.Event) {
	s := c.semaphores[rng.IntN(len(c.semaphores))]
	switch h := c.acquirePermit(ctx, s, between(rng, 0, 1500*time.Millisecond)); {
	case h == nil:
	case oneIn(rng, 2):
		c.ends(ctx, rng, h)
	default:
		c.goesOn(ctx, rng, h)
	}
}

// acquirePermit waits for a permit, or, without patience, takes one that is free. It is told as a lock on the slot, which
// is known in the end only.
func (c *client) acquirePermit(ctx context.Context, s *permits, patience time.Duration) *held {
	op, acquire := history.OpLock, s.Acquire
	if patience < 200*time.Millisecond {
		op, acquire, patience = history.OpTryLock, s.TryAcquire, 2*(connect+3*c.nodeTimeout())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e := history.Event{
		At: c.rec.Clock.Now(), Kind: history.Call, Op: op, Resources: []string{s.name}, TTL: c.cfg.TTL,
		Permits: s.k, MinHold: int64(s.period), Call: c.nextCall(),
	}
	p, err := acquire(context.WithValue(ctx, callKey{}, -e.Call)) // Of a permit only the votes are told.
	back := c.returned(e)
	e.Bound = e.At + int64(patience+protocol.Slack)
	if err == nil {
		e.Resources[0] = fmt.Sprint(s.name, "#", p.Slot)
	}
	c.rec.Log(e)
	if err != nil {
		c.end(back, err)
		return nil
	}
	h := c.acquired(back, p.Lock)
	h.given = e
	return h
}
