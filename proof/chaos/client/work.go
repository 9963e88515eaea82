package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// A behaviour is what a worker does, again and again, of a call that it has drawn.
type behaviour func(c *client, ctx context.Context, rng *rand.Rand, e history.Event)

// What a worker does next, and how often in a hundred times.
var activities = []struct {
	share int
	do    behaviour
}{
	{20, (*client).tries},
	{27, (*client).waits},
	{15, (*client).keeps},
	{6, (*client).does},
	{6, (*client).extends},
	{5, (*client).handsOn},
	{2, (*client).abandons},
	{6, (*client).givesUp},
	{8, (*client).takesPermit},
	{5, (*client).hurries},
}

// work does one thing after another until ctx ends.
func (c *client) work(ctx context.Context, rng *rand.Rand) {
	for rest(ctx, between(rng, 5*time.Millisecond, 150*time.Millisecond)) {
		lot := rng.IntN(100)
		for _, a := range activities {
			if lot -= a.share; lot < 0 {
				a.do(c, ctx, rng, c.wish(rng))
				break
			}
		}
	}
}

// tries takes what is free, and does not wait.
func (c *client) tries(ctx context.Context, rng *rand.Rand, e history.Event) {
	c.ends(ctx, rng, c.tryLock(ctx, nil, e))
}

func (c *client) waits(ctx context.Context, rng *rand.Rand, e history.Event) {
	c.ends(ctx, rng, c.lock(ctx, e, between(rng, 500*time.Millisecond, 3*time.Second)))
}

// works has a section under a lock, if there is one, and releases it.
func (c *client) works(ctx context.Context, h *held, pause time.Duration) {
	if h != nil {
		c.section(ctx, h, pause, "")
		c.unlock(ctx, h)
	}
}

// ends is how a holder has done: it mostly works and unlocks, and seldom leaves that to the end of the lock.
func (c *client) ends(ctx context.Context, rng *rand.Rand, h *held) {
	if h != nil && oneIn(rng, 30) {
		c.forget(h)
		return
	}
	c.works(ctx, h, short(rng))
}

// keeps holds a lock for about its ttl, by KeepAlive.
func (c *client) keeps(ctx context.Context, rng *rand.Rand, e history.Event) {
	if h := c.lock(ctx, e, 2*time.Second); h != nil {
		c.goesOn(ctx, rng, h)
	}
}

// goesOn keeps a lock that it has. Now and then it has that end, extends the lock by itself, and goes on.
func (c *client) goesOn(ctx context.Context, rng *rand.Rand, h *held) {
	done := c.keep(ctx, h)
	for oneIn(rng, 3) {
		c.section(ctx, h, between(rng, 0, c.ttl/2), "")
		h.stop(errStopped)
		done()
		rest(ctx, between(rng, 0, time.Until(h.Until())/2))
		c.extend(ctx, h, between(rng, c.ttl/2, c.longest()))
		done = c.keep(ctx, h)
	}
	c.works(ctx, h, between(rng, c.ttl/4, c.ttl*5/4))
	done()
}

// does does the same by Do, which locks and unlocks by itself, also if its function panics.
func (c *client) does(ctx context.Context, rng *rand.Rand, e history.Event) {
	c.doesFor(ctx, e, between(rng, 0, c.ttl/2), oneIn(rng, 10))
}

func (c *client) doesFor(ctx context.Context, e history.Event, work time.Duration, panics bool) {
	const patience = 2 * time.Second
	e = c.begin(history.OpLock, patience, e)
	var unlock history.Event
	var h *held
	var done func()
	ctx = context.WithValue(context.WithoutCancel(ctx), callKey{}, e.Call) // It is that of the hold, too.
	err := caught(func() error {
		return c.of(e).Do(ctx, e.Resources, time.Duration(e.TTL), func(kept context.Context, lock *redlock.Lock) error {
			h = c.acquired(e, lock)
			done = c.watch(kept, h)
			c.section(ctx, h, work, "")
			unlock = history.Event{Lock: h.call, Resources: e.Resources, Until: c.until(h), Detail: history.ByDo}
			unlock = c.begin(history.OpUnlock, c.timeout(e), unlock)
			if panics {
				panic(errPanic)
			}
			return nil
		}, append(c.given(e), redlock.WithWait(patience))...)
	})
	if h == nil {
		c.end(e, err)
		return
	}
	c.end(unlock, err)
	c.forget(h)
	done()
}

// errPanic is what a function panics with.
var errPanic = errors.New("it has panicked")

// caught returns what f does, or panics with.
func caught(f func() error) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errPanic:
			err = errPanic
		default:
			panic(p)
		}
	}()
	return f()
}

// extends extends a lock by longer and by shorter ttls, and leaves it to expire or not.
func (c *client) extends(ctx context.Context, rng *rand.Rand, e history.Event) {
	h := c.lock(ctx, e, 2*time.Second)
	if h == nil {
		return
	}
	for range rng.IntN(4) {
		c.section(ctx, h, between(rng, 0, time.Until(h.Until())*3/4), "")
		if !c.extend(ctx, h, between(rng, c.ttl/8, c.longest())) {
			break
		}
	}
	switch rng.IntN(4) {
	case 0:
		c.forget(h)
	case 1:
		c.goesOn(ctx, rng, h)
	default:
		c.works(ctx, h, short(rng))
	}
}

// handsOn leaves the release to another process.
func (c *client) handsOn(ctx context.Context, rng *rand.Rand, e history.Event) {
	if h := c.lock(ctx, e, time.Second); h != nil {
		c.section(ctx, h, short(rng), h.Token())
		c.forget(h)
		if e.Turn > 0 && !e.Polls { // It is not released by its token, whoever has it by then.
			c.unlock(ctx, h)
		}
		if c.cfg.Quiet { // Nobody hears of it.
			c.releaseForeign(ctx, protocol.Command{Owner: c.cfg.Client, Lock: h.call, Resources: e.Resources, Token: h.Token()})
		}
	}
}

// abandons leaves a lock to expire.
func (c *client) abandons(ctx context.Context, rng *rand.Rand, e history.Event) {
	if h := c.tryLock(ctx, nil, e); h != nil {
		h.careless = true
		c.section(ctx, h, between(rng, c.ttl/2, 2*c.ttl), "")
		c.forget(h)
	}
}

// givesUp ends attempts at any moment.
func (c *client) givesUp(ctx context.Context, rng *rand.Rand, e history.Event) {
	c.works(ctx, c.lock(ctx, e, between(rng, 0, 20*time.Millisecond)), short(rng))
}

// crowds asks for a lock of its own again and again. Hundreds that do so are far more than the nodes can answer in time.
func (c *client) crowds(ctx context.Context, resource string) {
	for ctx.Err() == nil {
		if lock, err := c.bare.TryLock(ctx, []string{resource}, c.ttl); err == nil {
			_ = lock.Unlock(ctx)
		}
	}
}

// errStopped is why a hold has ended that its holder did not want any more.
var errStopped = errors.New("the holder has stopped keeping it")

// keep keeps the lock alive. The result waits until it is told how that has ended.
func (c *client) keep(ctx context.Context, h *held) (done func()) {
	ctx, h.stop = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), callKey{}, h.call))
	kept := h.KeepAlive(ctx)
	if h.call%2 == 0 {
		_ = h.KeepAlive(ctx) // Of which the first one must not suffer.
	}
	return c.watch(kept, h)
}

// watch tells when the lock's context has ended with a loss. The result waits for that to be told.
func (c *client) watch(kept context.Context, h *held) (done func()) {
	h.kept = kept
	c.rec.Log(history.Event{Kind: history.Keep, Lock: h.call, Resources: h.Resources()})
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-kept.Done()
		e := history.Event{At: c.rec.Clock.Now(), Kind: history.Lost, Lock: h.call, Resources: h.Resources(), Until: c.until(h)}
		cause := context.Cause(kept)
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
