package client

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

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

// guards has holders come to a Guard at any time: while they have the lock, or when a successor has it.
func (c *client) guards(ctx context.Context, rng *rand.Rand, _ history.Event) {
	const ttl = 100 * time.Millisecond
	var writes sync.WaitGroup
	for range 3 {
		e := c.plain("guard/" + c.cfg.Client)
		e.TTL = int64(ttl)
		h := c.tryLock(ctx, with(c.lib.TryLock, redlock.WithFencing()), e)
		if h == nil {
			break
		}
		late := between(rng, 0, 3*ttl)
		write := func() {
			rest(ctx, late)
			g := history.Event{At: c.rec.Clock.Now(), Kind: history.Guarded, Lock: h.call, Resources: h.Resources(), Fence: h.Fence()}
			_ = c.guard.Do(h.Fence(), func() error {
				g.At, g.OK = c.rec.Clock.Now(), true
				time.Sleep(time.Millisecond)
				g.End = c.rec.Clock.Now()
				return nil
			})
			g.End = cmp.Or(g.End, c.rec.Clock.Now())
			c.rec.Log(g)
		}
		writes.Go(write) // Twice at one time.
		writes.Go(write)
		c.forget(h)
		rest(ctx, time.Until(h.Until())+2*time.Millisecond)
	}
	writes.Wait()
}
