package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
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
