package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// What a worker does next, and how often in a hundred times.
var activities = []struct {
	share int
	do    behaviour
}{
	{22, (*client).tries},
	{40, (*client).waits},
	{5, (*client).keeps},
	{8, (*client).does},
	{7, (*client).extends},
	{7, (*client).handsOn},
	{4, (*client).abandons},
	{7, (*client).givesUp},
}

// work does one thing after another until ctx ends.
func (c *client) work(ctx context.Context, rng *rand.Rand) {
	for rest(ctx, between(rng, 5*time.Millisecond, 150*time.Millisecond)) {
		if wrong := broken[c.cfg.Broken]; wrong != nil {
			wrong(c, ctx, rng, c.draw(rng))
			continue
		}
		lot := rng.IntN(100)
		for _, a := range activities {
			if lot -= a.share; lot < 0 {
				a.do(c, ctx, rng, c.draw(rng))
				break
			}
		}
	}
}

// draw picks what to lock: one resource, or sometimes two, both with fences or both without.
func (c *client) draw(rng *rand.Rand) []string {
	if c.cfg.Quiet && rng.IntN(4) == 0 {
		return []string{"order-" + strconv.FormatUint(rng.Uint64(), 36)} // A name that is never used again, as most are.
	}
	order := rng.Perm(len(c.cfg.Resources))
	some := []string{c.cfg.Resources[order[0]]}
	for _, i := range order[1:] {
		res := c.cfg.Resources[i]
		if slices.Contains(c.cfg.Fenced, res) == slices.Contains(c.cfg.Fenced, some[0]) && rng.IntN(6) == 0 {
			return append(some, res)
		}
	}
	return some
}

// tries takes what is free, and does not wait.
func (c *client) tries(ctx context.Context, rng *rand.Rand, resources []string) {
	c.works(ctx, c.tryLock(ctx, resources), short(rng))
}

func (c *client) waits(ctx context.Context, rng *rand.Rand, resources []string) {
	c.works(ctx, c.lock(ctx, resources, between(rng, 500*time.Millisecond, 3*time.Second)), short(rng))
}

// works has a section under a lock, if there is one, and releases it.
func (c *client) works(ctx context.Context, h *held, pause time.Duration) {
	if h != nil {
		c.section(ctx, h, pause, "")
		c.unlock(ctx, h)
	}
}

// keeps holds a lock for about its ttl, by KeepAlive.
func (c *client) keeps(ctx context.Context, rng *rand.Rand, resources []string) {
	if h := c.lock(ctx, resources, 2*time.Second); h != nil {
		done := c.keep(ctx, h)
		c.works(ctx, h, between(rng, c.ttl/4, c.ttl*5/4))
		done()
	}
}

// does does the same by Do, which locks and unlocks by itself.
func (c *client) does(ctx context.Context, rng *rand.Rand, resources []string) {
	c.doesFor(ctx, history.Event{Resources: resources}, between(rng, 0, c.ttl/2))
}

// doesFor works for a while in a Do, of whose options the event tells.
func (c *client) doesFor(ctx context.Context, e history.Event, work time.Duration, opts ...redlock.Option) {
	const patience = 2 * time.Second
	resources := e.Resources
	e.TTL = c.cfg.TTL
	e = c.begin(history.OpLock, patience, e)
	var unlock history.Event
	var h *held
	var done func()
	// The context is that of the hold, too: it ends the wait only.
	limited, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), callKey{}, e.Call))
	defer cancel()
	impatient := time.AfterFunc(patience, cancel)
	over := context.AfterFunc(ctx, cancel)
	err := c.lib.Do(limited, resources, c.ttl, func(kept context.Context, lock *redlock.Lock) error {
		impatient.Stop()
		over()
		h = c.acquired(e, lock)
		h.kept = kept
		done = c.watch(h)
		c.section(ctx, h, work, "")
		unlock = c.begin(history.OpUnlock, c.nodeTimeout(), history.Event{Lock: h.call, Resources: resources, Until: c.until(h), Detail: history.ByDo})
		return nil
	}, append(opts, c.callOptions(resources)...)...)
	if h == nil {
		c.end(e, err)
		return
	}
	c.end(unlock, err)
	c.forget(h)
	done()
}

// extends holds a lock for longer by asking for it.
func (c *client) extends(ctx context.Context, rng *rand.Rand, resources []string) {
	if h := c.lock(ctx, resources, time.Second); h != nil {
		for range 1 + rng.IntN(2) {
			c.section(ctx, h, between(rng, 0, c.ttl/8), "")
			if !c.extend(ctx, h, c.ttl) {
				break
			}
		}
		c.works(ctx, h, short(rng))
	}
}

// handsOn leaves the release to another process.
func (c *client) handsOn(ctx context.Context, rng *rand.Rand, resources []string) {
	if !c.cfg.HandOn {
		c.tries(ctx, rng, resources)
		return
	}
	if h := c.lock(ctx, resources, time.Second); h != nil {
		c.section(ctx, h, short(rng), h.Token())
		c.forget(h)
		if c.cfg.Quiet { // Nobody hears of it.
			c.releaseForeign(ctx, protocol.Command{Owner: c.cfg.Client, Lock: h.call, Resources: resources, Token: h.Token()})
		}
	}
}

// abandons leaves a lock to expire.
func (c *client) abandons(ctx context.Context, rng *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		h.careless = true
		c.section(ctx, h, between(rng, c.ttl/2, 2*c.ttl), "")
		c.forget(h)
	}
}

// givesUp ends attempts at any moment.
func (c *client) givesUp(ctx context.Context, rng *rand.Rand, resources []string) {
	c.works(ctx, c.lock(ctx, resources, between(rng, 0, 20*time.Millisecond)), short(rng))
}

// crowds asks for a lock of its own again and again. Hundreds that do so are far more than the nodes can answer in time.
func (c *client) crowds(ctx context.Context, resource string) {
	for ctx.Err() == nil {
		if lock, err := c.bare.TryLock(ctx, []string{resource}, c.ttl); err == nil {
			_ = lock.Unlock(ctx)
		}
	}
}

// watch tells when the lock's context has ended with a loss. The result waits for that to be told.
func (c *client) watch(h *held) (done func()) {
	c.rec.Log(history.Event{Kind: history.Keep, Lock: h.call, Resources: h.Resources()})
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-h.kept.Done()
		e := history.Event{At: c.rec.Clock.Now(), Kind: history.Lost, Lock: h.call, Resources: h.Resources(), Until: c.until(h)}
		cause := context.Cause(h.kept)
		if errors.Is(cause, context.Canceled) {
			return // By Unlock.
		}
		e.Err, e.Outcome = cause.Error(), history.OutcomeCancelled
		if errors.Is(cause, redlock.ErrLost) {
			e.Outcome = history.OutcomeLost
		}
		c.rec.Log(e)
	}()
	return func() { <-told }
}

// short is the time that most sections take.
func short(rng *rand.Rand) time.Duration { return between(rng, 0, 30*time.Millisecond) }

// between is from if it is the later one: what is left of a lock may be less than nothing.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(max(0, int64(to-from))+1))
}

// rest waits, and reports whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
