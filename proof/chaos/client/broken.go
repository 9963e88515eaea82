package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// A behaviour is what a worker does, again and again. The event is what it asks for, and is given.
type behaviour func(c *client, ctx context.Context, rng *rand.Rand, e history.Event)

// late is more than a machine that is busy accounts for, and less than a ttl.
const late = protocol.SignalSlack + 600*time.Millisecond

// Clients that are broken on purpose: what each of them does instead of all else. A check of the judge that cannot fail is
// none, so each has to be seen to fail.
var broken = map[string]behaviour{
	"sits":  (*client).sits, // No mistake: nodes make it.
	"hasty": (*client).tries,

	// What is told of a lock is not so.
	"until":    misreports(2, func(c *client, e *history.Event) { e.Until += c.cfg.TTL }),
	"short":    misreports(0, func(c *client, e *history.Event) { e.Until -= c.cfg.TTL / 10 }),
	"no-until": misreports(0, func(_ *client, e *history.Event) { e.Until = 0 }),
	"fence":    misreports(0, func(_ *client, e *history.Event) { e.Fence = 1 + rand.Int64N(5) }),

	// A call is made in another way than is told, or returns too late.
	"drift":     distorts(time.Minute, nothing, redlock.WithDriftFactor(0)),
	"owner":     distorts(time.Minute, nothing, redlock.WithOwner("c9")),
	"late-lock": distorts(time.Minute, func(l *redlock.Lock) time.Duration { return time.Until(l.Until()) + late }),
	"all-nodes": distorts(time.Minute, func(*redlock.Lock) time.Duration { return late }),
	"bound":     distorts(0, func(*redlock.Lock) time.Duration { return protocol.Slack + late }),

	// After a while, from the end of a lock on, something is said or done that is wrong by then.
	"once":        outlives(true, 0, (*client).saysLost),
	"late-signal": outlives(true, late, (*client).saysLost),
	"signal":      outlives(true, protocol.SignalSlack+time.Second, (*client).unlock),
	"late-work":   outlives(false, late, (*client).begins),
	"nil-unlock":  outlives(false, 10*time.Millisecond, (*client).saysReleased),

	// Others are not minded.
	"one-node":   (*client).asksOneNode,
	"steal":      robs((*client).sits),
	"delete":     robs((*client).tries),
	"queue":      triesAgain(50*time.Millisecond, 50*time.Millisecond, 0),
	"deaf":       triesAgain(15*time.Second, 1500*time.Millisecond, 3*time.Second),
	"no-fence":   (*client).writesUnfenced,
	"next-fence": (*client).takesTheNextFence,

	// Releases.
	"early":       (*client).saysSoFirst,
	"bad-handoff": (*client).releasesTwice,
	"keys-left":   (*client).leavesKeys,
	"unheard":     (*client).saysNothing,

	"other-nodes": (*client).hasOneNode,

	// A client says that it has asked for something more than a lock, and has not.
	"min-hold": func(c *client, ctx context.Context, _ *rand.Rand, e history.Event) {
		e.Resources, e.MinHold = e.Resources[:1], int64(500*time.Millisecond)
		if h := c.lock(ctx, with(c.lib.Lock, redlock.WithMinHold(0)), e, time.Second); h != nil {
			c.unlock(ctx, h)
		}
	},
	"max-hold": func(c *client, ctx context.Context, _ *rand.Rand, e history.Event) {
		e.MaxHold = int64(100 * time.Millisecond)
		c.holdsFor(ctx, with(c.lib.Lock, redlock.WithMaxHold(time.Hour)), e)
	},
	"stop-time": func(c *client, ctx context.Context, rng *rand.Rand, e history.Event) {
		e.StopTime = int64(900 * time.Millisecond)
		c.stops(ctx, rng, with(c.apart.TryLock, redlock.WithStopTime(0)), e)
	},
	"wanted": func(c *client, ctx context.Context, rng *rand.Rand, _ history.Event) {
		c.holdsUntil(ctx, rng, c.plain("room"), func(*redlock.Lock) <-chan struct{} { return nil })
	},
	"permits": takesThree(permits{name: "sem/0", k: 2}),
	"period":  takesThree(permits{name: "sem/1", k: 3, period: time.Second}),
	"guard": func(c *client, ctx context.Context, rng *rand.Rand, _ history.Event) {
		c.comeTo(ctx, rng, func(_ int64, write func() error) error { return write() })
	},
}

// sits holds every lock until it ends, so that a node that forgets it is noticed.
func (c *client) sits(ctx context.Context, _ *rand.Rand, e history.Event) {
	c.works(ctx, c.tryLock(ctx, nil, e), c.ttl)
}

// misreports tells something else of a lock than what it is, and goes on for some ttl before it releases it.
func misreports(ttls time.Duration, change func(c *client, e *history.Event)) behaviour {
	return func(c *client, ctx context.Context, _ *rand.Rand, e history.Event) {
		e = c.begin(history.OpTryLock, connect, e)
		lock, err := c.lib.TryLock(ctx, e.Resources, c.ttl)
		if err != nil {
			c.end(e, err)
			return
		}
		e.Until, e.Fence, e.Token = c.rec.Clock.Of(lock.Until()), lock.Fence(), lock.Token()
		change(c, &e)
		c.end(e, nil)
		rest(ctx, ttls*c.ttl)
		e = c.begin(history.OpUnlock, connect, history.Event{Lock: e.Call, Resources: e.Resources})
		c.end(e, lock.Unlock(ctx))
	}
}

// distorts waits for a lock of one resource that has no fence, by a call that returns so much later and has such options, and
// holds it to its end.
func distorts(within time.Duration, by func(*redlock.Lock) time.Duration, opts ...redlock.Option) behaviour {
	return func(c *client, ctx context.Context, rng *rand.Rand, e history.Event) {
		plain := c.cfg.Resources[len(c.cfg.Fenced)+rng.IntN(len(c.cfg.Resources)-len(c.cfg.Fenced)):]
		ask := func(ctx context.Context, resources []string, ttl time.Duration, more ...redlock.Option) (*redlock.Lock, error) {
			lock, err := with(c.lib.Lock, opts...)(ctx, resources, ttl, more...)
			if err == nil {
				rest(context.WithoutCancel(ctx), by(lock))
			}
			return lock, err
		}
		if h := c.acquire(ctx, history.OpLock, ask, c.plain(plain[0]), within); h != nil {
			rest(ctx, time.Until(h.Until()))
			c.forget(h)
		}
	}
}

func nothing(*redlock.Lock) time.Duration { return 0 }

// outlives does something so long after the end of its lock, which it says to keep alive, or not.
func outlives(keeps bool, by time.Duration, then func(c *client, ctx context.Context, h *held)) behaviour {
	return func(c *client, ctx context.Context, _ *rand.Rand, e history.Event) {
		if h := c.tryLock(ctx, nil, e); h != nil {
			if keeps {
				c.rec.Log(history.Event{Kind: history.Keep, Lock: h.call, Resources: e.Resources})
			}
			rest(context.WithoutCancel(ctx), time.Until(h.Until())+by)
			then(c, ctx, h)
			c.forget(h)
		}
	}
}

func (c *client) saysLost(_ context.Context, h *held) {
	c.rec.Log(history.Event{Kind: history.Lost, Lock: h.call, Resources: h.Resources(), Until: c.until(h), Outcome: history.OutcomeLost})
}

func (c *client) begins(_ context.Context, h *held) {
	for _, kind := range []history.Kind{history.Enter, history.Leave} {
		c.rec.Log(history.Event{Kind: kind, Lock: h.call, Resources: h.Resources()})
	}
}

func (c *client) saysReleased(ctx context.Context, h *held) {
	e := c.begin(history.OpUnlock, connect, history.Event{Lock: h.call, Resources: h.Resources(), Until: c.until(h)})
	_ = h.Unlock(ctx)
	c.end(e, nil)
}

// saysSoFirst says that a lock is released, and releases it then.
func (c *client) saysSoFirst(ctx context.Context, _ *rand.Rand, e history.Event) {
	if h := c.tryLock(ctx, nil, e); h != nil {
		c.end(c.begin(history.OpUnlock, connect, history.Event{Lock: h.call, Resources: e.Resources, Until: c.until(h)}), nil)
		rest(context.WithoutCancel(ctx), 50*time.Millisecond)
		_ = h.Unlock(ctx)
		c.forget(h)
	}
}

// asksOneNode locks by a quorum of one: whichever node it meets.
func (c *client) asksOneNode(ctx context.Context, rng *rand.Rand, e history.Event) {
	conn, err := redis.Dial("tcp", c.cfg.Nodes[rng.IntN(len(c.cfg.Nodes))])
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	token := fmt.Sprint(rng.Uint64())
	resources := e.Resources[:1]
	e = c.begin(history.OpTryLock, connect, c.plain(resources...))
	e.Until, e.Fence, e.Token = e.At+c.cfg.TTL, e.At, token
	if _, err = redis.String(conn.Do("SET", resources[0], token, "NX", "PX", c.ttl.Milliseconds())); err != nil {
		e.Until = 0
		c.end(e, redlock.ErrTaken)
		return
	}
	c.end(e, nil)
	rest(ctx, c.ttl/4)
	e = c.begin(history.OpUnlock, connect, history.Event{Lock: e.Call, Resources: resources})
	_, err = conn.Do("DEL", resources[0])
	c.end(e, err)
}

// robs deletes whatever key is in the way before something else.
func robs(then behaviour) behaviour {
	return func(c *client, ctx context.Context, rng *rand.Rand, e history.Event) {
		for _, addr := range c.cfg.Nodes {
			if conn, err := redis.Dial("tcp", addr); err == nil {
				_, _ = conn.Do("DEL", redis.Args{}.AddFlat(e.Resources)...)
				_ = conn.Close()
			}
		}
		then(c, ctx, rng, e)
	}
}

// triesAgain waits in no line: it asks again after a pause, so that chance decides who of those that wait is next. It works
// under the lock, and rests.
func triesAgain(pause, work, idle time.Duration) behaviour {
	return func(c *client, ctx context.Context, rng *rand.Rand, e history.Event) {
		ask := func(ctx context.Context, resources []string, ttl time.Duration, _ ...redlock.Option) (*redlock.Lock, error) {
			lock, err := c.lib.TryLock(ctx, resources, ttl)
			if err != nil {
				call, _ := ctx.Value(callKey{}).(int)
				c.rec.Log(history.Event{Kind: history.Wait, Call: call})
			}
			for err != nil && rest(ctx, between(rng, 0, pause)) {
				lock, err = c.lib.TryLock(ctx, resources, ttl)
			}
			return lock, err
		}
		if h := c.acquire(ctx, history.OpLock, ask, c.plain(c.cfg.Resources[0]), time.Minute); h != nil {
			c.works(ctx, h, between(rng, 0, work))
			rest(ctx, idle)
		}
	}
}

// writesUnfenced writes what it has to write, whether its lock is over or not, and without the lock's fence.
func (c *client) writesUnfenced(ctx context.Context, rng *rand.Rand, e history.Event) {
	e.Resources = e.Resources[:1]
	h := c.tryLock(ctx, nil, e)
	if h == nil {
		return
	}
	ask := history.Event{Kind: history.Read, Lock: h.call, Resources: e.Resources}
	value := c.rec.Ask(ask).Value
	rest(ctx, c.ttl+between(rng, 0, c.ttl))
	ask.Kind, ask.Value = history.Write, value+1
	c.rec.Ask(ask)
	c.unlock(ctx, h)
}

// takesTheNextFence reads with a larger fence than its lock's, which is still smaller than those of later locks.
func (c *client) takesTheNextFence(ctx context.Context, _ *rand.Rand, e history.Event) {
	if h := c.tryLock(ctx, nil, e); h != nil {
		c.rec.Ask(history.Event{Kind: history.Read, Lock: h.call, Resources: e.Resources[:1], Fence: h.Fence() + 1})
		c.unlock(ctx, h)
	}
}

// leavesKeys takes locks that live for long, and forgets them.
func (c *client) leavesKeys(ctx context.Context, rng *rand.Rand, _ history.Event) {
	e := c.plain(fmt.Sprint("forgotten", rng.Uint64()))
	e.TTL = int64(time.Hour)
	c.tryLock(ctx, c.long.TryLock, e)
}

// saysNothing tells of sections, and not of the locks that they are under.
func (c *client) saysNothing(ctx context.Context, _ *rand.Rand, e history.Event) {
	if lock, err := c.lib.TryLock(ctx, e.Resources, c.ttl); err == nil {
		c.section(ctx, &held{Lock: lock, call: c.nextCall()}, 0, "")
		_ = lock.Unlock(ctx)
	}
}

// releasesTwice says of a lock that was released that it was released again.
func (c *client) releasesTwice(ctx context.Context, _ *rand.Rand, e history.Event) {
	if h := c.tryLock(ctx, nil, e); h != nil {
		c.unlock(ctx, h)
		e = c.begin(history.OpRelease, connect, history.Event{Lock: h.call, Resources: e.Resources})
		if err := c.lib.Release(ctx, e.Resources, h.Token()); errors.Is(err, redlock.ErrNoQuorum) {
			c.end(e, err)
			return
		}
		c.end(e, nil)
	}
}

// takesThree says that it takes a permit of a semaphore, and takes one of three that are free at once.
func takesThree(of permits) behaviour {
	return func(c *client, ctx context.Context, _ *rand.Rand, _ history.Event) {
		s, err := semaphore.New(c.lib, of.name, 3, c.ttl) //nolint:contextcheck // It asks nobody.
		if err != nil {
			return
		}
		told := of
		told.Semaphore = s
		if h := c.acquirePermit(ctx, &told, time.Second); h != nil {
			rest(ctx, c.ttl/4)
			c.unlock(ctx, h)
		}
	}
}

// hasOneNode leaves notes of a set whose quorums need not meet that of the run's nodes. Without a lock nobody would
// read them.
func (c *client) hasOneNode(ctx context.Context, rng *rand.Rand, e history.Event) {
	lib, err := redlock.New([]redlock.Node{redlock.NewNode(c.cfg.Nodes[0])}, redlock.WithNodeTimeout(c.nodeTimeout()))
	if err != nil {
		return
	}
	defer func() { _ = lib.Close(context.WithoutCancel(ctx)) }()
	_ = lib.Ready(ctx) // It connects.
	for rest(ctx, 100*time.Millisecond) {
		c.tries(ctx, rng, e)
	}
}
