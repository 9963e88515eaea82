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
)

// Clients that are broken on purpose: what each of them does instead of all else, again and again. A check of the
// judge that cannot fail is none, so each has to be seen to fail.
var broken = map[string]func(c *client, ctx context.Context, rng *rand.Rand, resources []string){
	"sits":        (*client).sits,
	"until":       (*client).mistakesUntil,
	"drift":       (*client).allowsNoDrift,
	"one-node":    (*client).asksOneNode,
	"steal":       (*client).steals,
	"delete":      (*client).deletes,
	"no-fence":    (*client).writesUnfenced,
	"fence":       (*client).inventsFences,
	"next-fence":  (*client).takesTheNextFence,
	"queue":       (*client).jumpsTheQueue,
	"signal":      (*client).hearsNothing,
	"late-signal": (*client).hearsLate,
	"late-lock":   (*client).getsLate,
	"late-work":   (*client).beginsLate,
	"no-until":    (*client).knowsNoEnd,
	"nil-unlock":  (*client).praisesItself,
	"keys-left":   (*client).leavesKeys,
	"bound":       (*client).takesItsTime,
	"unheard":     (*client).saysNothing,
	"bad-handoff": (*client).releasesTwice,
	"hasty":       (*client).tries,
	"once":        (*client).keepsNothing,
	"deaf":        (*client).hearsOfNoRelease,
	"early":       (*client).saysSoFirst,
	"min-hold":    (*client).forgetsMinHold,
	"max-hold":    (*client).forgetsMaxHold,
	"stop-time":   (*client).stopsLate,
	"wanted":      (*client).hearsOfNobody,
	"permits":     (*client).takesOneMore,
	"period":      (*client).takesTooOften,
	"guard":       (*client).guardsNothing,
	"owner":       (*client).bearsAnotherName,
}

// sits is no mistake: it holds every lock until it ends, so that a node that forgets it is noticed.
func (c *client) sits(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		c.section(ctx, h, c.ttl, "")
		c.unlock(ctx, h)
	}
}

// mistakesUntil takes its locks to be valid for longer than they are.
func (c *client) mistakesUntil(ctx context.Context, _ *rand.Rand, resources []string) {
	e := c.begin(history.OpTryLock, connect, history.Event{Resources: resources, TTL: c.cfg.TTL})
	lock, err := c.lib.TryLock(ctx, resources, c.ttl)
	if err != nil {
		c.end(e, err)
		return
	}
	e.Until, e.Fence, e.Token = c.rec.clock.Of(lock.Until().Add(c.ttl)), lock.Fence(), lock.Token()
	c.end(e, nil)
	rest(ctx, 2*c.ttl)
	e = c.begin(history.OpUnlock, connect, history.Event{Lock: e.Call, Resources: resources})
	c.end(e, lock.Unlock(ctx))
}

// allowsNoDrift takes its locks to be valid for the whole ttl, and waits in line for the next one when one ends.
func (c *client) allowsNoDrift(ctx context.Context, _ *rand.Rand, resources []string) {
	e := c.begin(history.OpLock, time.Minute, history.Event{Resources: resources[:1], TTL: c.cfg.TTL})
	lock, err := c.lib.Lock(ctx, resources[:1], c.ttl, append(c.callOptions(resources), redlock.WithDriftFactor(0))...)
	if err != nil {
		c.end(e, err)
		return
	}
	c.forget(c.acquired(e, lock))
	rest(ctx, time.Until(lock.Until()))
}

// asksOneNode locks by a quorum of one: whichever node it meets.
func (c *client) asksOneNode(ctx context.Context, rng *rand.Rand, resources []string) {
	conn, err := redis.Dial("tcp", c.cfg.Nodes[rng.IntN(len(c.cfg.Nodes))])
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	token := fmt.Sprint(rng.Uint64())
	e := c.begin(history.OpTryLock, connect, history.Event{Resources: resources[:1], TTL: c.cfg.TTL})
	e.Until, e.Fence, e.Token = e.At+c.cfg.TTL, e.At, token
	if _, err = redis.String(conn.Do("SET", resources[0], token, "NX", "PX", c.ttl.Milliseconds())); err != nil {
		e.Until = 0
		c.end(e, redlock.ErrTaken)
		return
	}
	c.end(e, nil)
	rest(ctx, c.ttl/4)
	e = c.begin(history.OpUnlock, connect, history.Event{Lock: e.Call, Resources: resources[:1]})
	_, err = conn.Do("DEL", resources[0])
	c.end(e, err)
}

// steals deletes whatever key is in its way.
func (c *client) steals(ctx context.Context, rng *rand.Rand, resources []string) {
	c.deleteKeys(resources)
	c.sits(ctx, rng, resources)
}

// deletes takes away the keys of others, which have work to do.
func (c *client) deletes(ctx context.Context, rng *rand.Rand, resources []string) {
	c.deleteKeys(resources)
	c.tries(ctx, rng, resources)
}

func (c *client) deleteKeys(resources []string) {
	for _, addr := range c.cfg.Nodes {
		if conn, err := redis.Dial("tcp", addr); err == nil {
			_, _ = conn.Do("DEL", redis.Args{}.AddFlat(resources)...)
			_ = conn.Close()
		}
	}
}

// writesUnfenced writes what it has to write, whether its lock is over or not, and without the lock's fence.
func (c *client) writesUnfenced(ctx context.Context, rng *rand.Rand, resources []string) {
	h := c.tryLock(ctx, resources[:1])
	if h == nil {
		return
	}
	ask := history.Event{Kind: history.Read, Lock: h.call, Resources: resources[:1]}
	value := c.rec.ask(ask).Value
	rest(ctx, c.ttl+between(rng, 0, c.ttl))
	ask.Kind, ask.Value = history.Write, value+1
	c.rec.ask(ask)
	c.unlock(ctx, h)
}

// takesTheNextFence reads with a larger fence than its lock's, which is still smaller than those of later locks.
func (c *client) takesTheNextFence(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		c.rec.ask(history.Event{Kind: history.Read, Lock: h.call, Resources: resources[:1], Fence: h.Fence() + 1})
		c.unlock(ctx, h)
	}
}

// inventsFences has fences of its own, which do not grow.
func (c *client) inventsFences(ctx context.Context, rng *rand.Rand, resources []string) {
	c.misreports(ctx, resources, func(lock *redlock.Lock) (until, fence int64) {
		return c.rec.clock.Of(lock.Until()), 1 + rng.Int64N(5)
	})
}

// knowsNoEnd does not tell when its locks end.
func (c *client) knowsNoEnd(ctx context.Context, _ *rand.Rand, resources []string) {
	c.misreports(ctx, resources, func(lock *redlock.Lock) (until, fence int64) { return 0, lock.Fence() })
}

// misreports tells something else of a lock than what it is.
func (c *client) misreports(ctx context.Context, resources []string, as func(*redlock.Lock) (until, fence int64)) {
	e := c.begin(history.OpTryLock, connect, history.Event{Resources: resources, TTL: c.cfg.TTL})
	lock, err := c.lib.TryLock(ctx, resources, c.ttl)
	if err != nil {
		c.end(e, err)
		return
	}
	e.Token = lock.Token()
	e.Until, e.Fence = as(lock)
	c.end(e, nil)
	c.unlock(ctx, &held{Lock: lock, call: e.Call})
}

// jumpsTheQueue waits in no line but tries again and again, so that chance decides who of those that wait is next.
func (c *client) jumpsTheQueue(ctx context.Context, rng *rand.Rand, _ []string) {
	c.triesAgain(ctx, rng, 50*time.Millisecond, 50*time.Millisecond)
}

// hearsOfNoRelease asks again after a while, whatever has happened.
func (c *client) hearsOfNoRelease(ctx context.Context, rng *rand.Rand, _ []string) {
	c.triesAgain(ctx, rng, 10*c.ttl, c.ttl)
	rest(ctx, 2*c.ttl)
}

func (c *client) triesAgain(ctx context.Context, rng *rand.Rand, pause, work time.Duration) {
	resources := c.cfg.Resources[:1]
	e := c.begin(history.OpLock, time.Minute, history.Event{Resources: resources, TTL: c.cfg.TTL})
	call := context.WithValue(ctx, callKey{}, e.Call) // What the nodes say is told, as of any call.
	lock, err := c.lib.TryLock(call, resources, c.ttl)
	if err != nil {
		c.rec.log(history.Event{Kind: history.Wait, Call: e.Call})
	}
	for err != nil && rest(ctx, between(rng, 0, pause)) {
		lock, err = c.lib.TryLock(call, resources, c.ttl)
	}
	if err != nil {
		c.end(e, err)
		return
	}
	h := c.acquired(e, lock)
	c.section(ctx, h, between(rng, 0, work), "")
	c.unlock(ctx, h)
}

// late is more than a machine that is busy accounts for, and less than a ttl.
const late = protocol.SignalSlack + 600*time.Millisecond

// hearsLate is told of the end of a lock a second after it.
func (c *client) hearsLate(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		about := history.Event{Kind: history.Keep, Lock: h.call, Resources: resources}
		c.rec.log(about)
		rest(context.WithoutCancel(ctx), time.Until(h.Until())+late)
		about.Kind, about.Until, about.Outcome = history.Lost, c.until(h), history.OutcomeLost
		c.rec.log(about)
		c.forget(h)
	}
}

// getsLate is given a lock a second after its end.
func (c *client) getsLate(ctx context.Context, _ *rand.Rand, resources []string) {
	tooLate := func(ctx context.Context, resources []string, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, error) {
		lock, err := c.lib.TryLock(ctx, resources, ttl, opts...)
		if err == nil {
			rest(context.WithoutCancel(ctx), time.Until(lock.Until())+late)
		}
		return lock, err
	}
	if h := c.acquire(ctx, history.OpLock, tooLate, resources, time.Minute); h != nil {
		c.forget(h)
	}
}

// beginsLate begins its work a second after the end of its lock.
func (c *client) beginsLate(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		rest(context.WithoutCancel(ctx), time.Until(h.Until())+late)
		about := history.Event{Kind: history.Enter, Lock: h.call, Resources: resources}
		c.rec.log(about)
		about.Kind = history.Leave
		c.rec.log(about)
		c.forget(h)
	}
}

// hearsNothing says that it keeps a lock alive, does not, and goes on for seconds after its end.
func (c *client) hearsNothing(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		c.rec.log(history.Event{Kind: history.Keep, Lock: h.call, Resources: resources})
		rest(context.WithoutCancel(ctx), time.Until(h.Until())+protocol.SignalSlack+time.Second)
		c.unlock(ctx, h)
	}
}

// praisesItself says that each release was a success.
func (c *client) praisesItself(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		rest(context.WithoutCancel(ctx), time.Until(h.Until())+10*time.Millisecond)
		e := c.begin(history.OpUnlock, connect, history.Event{Lock: h.call, Resources: resources, Until: c.until(h)})
		_ = h.Unlock(ctx)
		c.end(e, nil)
	}
}

// leavesKeys takes locks that live for long, and forgets them.
func (c *client) leavesKeys(ctx context.Context, rng *rand.Rand, _ []string) {
	resources := []string{fmt.Sprint("forgotten", rng.Uint64())}
	e := c.begin(history.OpTryLock, connect, history.Event{Resources: resources})
	lock, err := c.long.TryLock(ctx, resources, time.Hour)
	if err != nil {
		c.end(e, err)
		return
	}
	c.acquired(e, lock)
}

// takesItsTime returns long after the call must have.
func (c *client) takesItsTime(ctx context.Context, _ *rand.Rand, resources []string) {
	e := c.begin(history.OpTryLock, connect, history.Event{Resources: resources})
	lock, err := c.lib.TryLock(ctx, resources, c.ttl)
	rest(context.WithoutCancel(ctx), connect+protocol.Slack+protocol.SignalSlack+time.Second)
	if err != nil {
		c.end(e, err)
		return
	}
	c.unlock(ctx, c.acquired(e, lock))
}

// saysNothing tells of sections, and not of the locks that they are under.
func (c *client) saysNothing(ctx context.Context, _ *rand.Rand, resources []string) {
	if lock, err := c.lib.TryLock(ctx, resources, c.ttl); err == nil {
		c.section(ctx, &held{Lock: lock, call: c.nextCall()}, 0, "")
		_ = lock.Unlock(ctx)
	}
}

// releasesTwice says of a lock that was released that it was released again.
func (c *client) releasesTwice(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		c.unlock(ctx, h)
		e := c.begin(history.OpRelease, connect, history.Event{Lock: h.call, Resources: resources})
		if err := c.lib.Release(ctx, resources, h.Token()); errors.Is(err, redlock.ErrNoQuorum) {
			c.end(e, err)
			return
		}
		c.end(e, nil)
	}
}

// keepsNothing says that it keeps a lock alive, and does not.
func (c *client) keepsNothing(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		about := history.Event{Kind: history.Keep, Lock: h.call, Resources: resources}
		c.rec.log(about)
		rest(context.WithoutCancel(ctx), time.Until(h.Until()))
		about.Kind, about.Until, about.Outcome = history.Lost, c.until(h), history.OutcomeLost
		c.rec.log(about)
		c.forget(h)
	}
}

// saysSoFirst says that a lock is released, and releases it then.
func (c *client) saysSoFirst(ctx context.Context, _ *rand.Rand, resources []string) {
	if h := c.tryLock(ctx, resources); h != nil {
		e := c.begin(history.OpUnlock, connect, history.Event{Lock: h.call, Resources: resources, Until: c.until(h)})
		c.end(e, nil)
		rest(context.WithoutCancel(ctx), 50*time.Millisecond)
		_ = h.Unlock(ctx)
		c.forget(h)
	}
}
