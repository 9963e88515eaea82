package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// section adds 1 to the register of each resource, in a read and a write with a pause between them. If handOn is
// the lock's token, the lock is another process's to release once the section is over.
//
// A third of the sections, and those of abandoned locks, do not look at their lock before they write, as if the process
// had been suspended between the look and the write: it is the fence that has to keep them out.
func (c *client) section(ctx context.Context, h *held, pause time.Duration, handOn string) {
	resources := h.Resources()
	if h.Err() != nil {
		return
	}
	c.rec.Log(history.Event{Kind: history.Enter, Lock: h.call, Resources: resources})
	values := make([]int64, len(resources))
	granted := true
	for i, res := range resources {
		var e history.Event
		if granted && h.Err() == nil {
			e = c.register(history.Read, h, res, 0)
		}
		values[i], granted = e.Value, e.OK
	}
	c.pause(ctx, h, pause)
	for i, res := range resources {
		if granted && (h.careless || h.Err() == nil) {
			granted = c.register(history.Write, h, res, values[i]+1).OK
		}
	}
	leave := history.Event{Kind: history.Leave, Lock: h.call, Resources: resources}
	if handOn != "" {
		leave.Token, leave.Detail = handOn, "hand on"
	}
	c.rec.Log(leave)
}

func (c *client) register(kind history.Kind, h *held, resource string, value int64) history.Event {
	return c.rec.Ask(history.Event{
		Kind: kind, Lock: h.call, Resources: []string{resource}, Fence: h.Fence(), Value: value,
	})
}

// pause works for a while, but not beyond the run, and, unless it is careless, not beyond the lock.
func (c *client) pause(ctx context.Context, h *held, d time.Duration) {
	var lost <-chan struct{}
	switch {
	case h.careless:
	case h.kept != nil:
		lost = h.kept.Done()
	default:
		d = min(d, time.Until(h.Until()))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-lost:
	case <-ctx.Done():
	}
}

// workLong takes and releases locks that would outlive the run by far: what is left of them was left behind. Many of its
// calls end at any moment. Nodes that lose their keys make no difference to it, as nobody else wants its resource.
func (c *client) workLong(ctx context.Context) {
	e := c.plain("long/" + c.cfg.Client)
	e.TTL = int64(10 * time.Minute)
	for rest(ctx, 100*time.Millisecond) {
		limited, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(20*time.Millisecond))))
		if h := c.tryLock(limited, c.long.TryLock, e); h != nil {
			c.unlock(ctx, h)
		}
		cancel()
	}
}

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
