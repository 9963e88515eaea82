package client

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// connect is the library's default for how long an attempt may wait for connections.
const connect = time.Second

// A held lock, and the call that acquired it.
type held struct {
	*redlock.Lock
	call  int
	given history.Event // That call.
	// careless is one whose sections do not look whether it is still held.
	careless bool
	kept     context.Context //nolint:containedctx // It ends with the lock; nil if nothing keeps that alive.
	stop     context.CancelCauseFunc
}

// An attempt is a call of Lock or TryLock.
type attempt func(ctx context.Context, resources []string, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, error)

// begin logs a call that is about to be made. It has to return within the given time.
func (c *client) begin(op string, within time.Duration, e history.Event) history.Event {
	e.Kind, e.Op, e.Call = history.Call, op, c.nextCall()
	e.At = c.rec.Clock.Now()
	e.Bound = e.At + int64(within+protocol.Slack)
	c.rec.Log(e)
	return e
}

// returned is e as the return of its call, now.
func (c *client) returned(e history.Event) history.Event {
	return history.Event{
		At: c.rec.Clock.Now(), Kind: history.Return, Op: e.Op, Call: e.Call, Lock: e.Lock, Owner: e.Owner, Resources: e.Resources,
		Until: e.Until, Fence: e.Fence, Token: e.Token, Holder: e.Holder,
	}
}

// end logs that the call has returned: now, unless e says when.
func (c *client) end(e history.Event, err error) {
	if e.Kind != history.Return {
		e = c.returned(e)
	}
	setResult(&e, err)
	c.rec.Log(e)
}

// acquired logs that the call has got the lock.
func (c *client) acquired(e history.Event, lock *redlock.Lock) *held {
	h := &held{Lock: lock, call: e.Call, given: e, careless: e.Call%3 == 0}
	e.Until, e.Fence, e.Token, e.Holder = c.rec.Clock.Of(lock.Until()), lock.Fence(), lock.Token(), lock.Holder()
	c.end(e, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[h.call] = h
	return h
}

// acquire makes a call that may take a time, by do if that is not nil, and returns nil if it failed.
func (c *client) acquire(ctx context.Context, op string, do attempt, e history.Event, within time.Duration) *held {
	e = c.begin(op, within, e)
	switch {
	case do != nil:
	case op == history.OpLock:
		do = c.of(e).Lock
	default:
		do = c.of(e).TryLock
	}
	lock, err := do(context.WithValue(ctx, callKey{}, e.Call), e.Resources, time.Duration(e.TTL), c.given(e)...)
	if err != nil {
		c.end(e, err)
		return nil
	}
	return c.acquired(e, lock)
}

// tryLock is acquire by a TryLock.
func (c *client) tryLock(ctx context.Context, do attempt, e history.Event) *held {
	return c.acquire(ctx, history.OpTryLock, do, e, connect+3*c.timeout(e))
}

// lock waits for the lock for a while.
func (c *client) lock(ctx context.Context, e history.Event, patience time.Duration) *held {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.acquire(ctx, history.OpLock, nil, e, patience)
}

func (c *client) extend(ctx context.Context, h *held, ttl time.Duration) bool {
	e := history.Event{Lock: h.call, Resources: h.Resources(), TTL: int64(ttl), Drift: h.given.Drift}
	e = c.begin(history.OpExtend, c.timeout(h.given), e)
	err := h.Extend(context.WithoutCancel(ctx), ttl)
	if err == nil {
		e.Until = c.until(h)
	}
	c.end(e, err)
	return err == nil
}

func (c *client) unlock(ctx context.Context, h *held) {
	e := c.begin(history.OpUnlock, c.timeout(h.given), history.Event{Lock: h.call, Resources: h.Resources(), Until: c.until(h)})
	err := h.Unlock(context.WithValue(ctx, callKey{}, h.call))
	c.end(e, err)
	c.forget(h)
}

// until is when the lock ends, as its holder sees it now.
func (c *client) until(h *held) int64 { return c.rec.Clock.Of(h.Until()) }

func (c *client) forget(h *held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, h.call)
	delete(c.waiting, h.call)
}

// releaseForeign releases a lock that another process took.
func (c *client) releaseForeign(ctx context.Context, cmd protocol.Command) {
	e := c.begin(history.OpRelease, connect+c.nodeTimeout(), history.Event{Lock: cmd.Lock, Owner: cmd.Owner, Resources: cmd.Resources})
	c.end(e, c.lib.Release(context.WithoutCancel(ctx), cmd.Resources, cmd.Token))
}

// setResult says how a call ended.
func setResult(e *history.Event, err error) {
	if err == nil {
		e.OK = true
		return
	}
	e.Err = err.Error()
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, redlock.ErrClosed):
		e.Outcome = history.OutcomeCancelled
	case errors.Is(err, redlock.ErrTaken):
		e.Outcome = history.OutcomeTaken
	case errors.Is(err, redlock.ErrLost):
		e.Outcome = history.OutcomeLost
	case errors.Is(err, redlock.ErrNoQuorum):
		e.Outcome = history.OutcomeNoQuorum
	}
}

// callKey is the key of a call's number in its context, and in those of calls on its lock, which the hook gets.
type callKey struct{}

// hook tells what calls do not return: how nodes voted, who waits, the extensions of KeepAlive, and of sets.
func (c *client) hook(ctx context.Context, e redlock.Event) {
	if c.cfg.Quiet {
		return // What is known of calls would grow.
	}
	call, _ := ctx.Value(callKey{}).(int)
	at := c.rec.Clock.Of(e.Time)
	switch {
	case e.Kind == redlock.EventSettled && e.Op == redlock.OpLock && call != 0:
		c.rec.Log(history.Event{At: at, Kind: history.Votes, Call: max(call, -call), From: at - int64(e.Took), Votes: votes(c.cfg.Set, e, at)})
	case e.Kind == redlock.EventWaiting && call > 0 && c.waitsNow(call):
		c.rec.Log(history.Event{At: at, Kind: history.Wait, Call: call})
	case e.Kind == redlock.EventExtended && e.Kept:
		c.logExtension(call, e, at)
	case e.Kind == redlock.EventReleased && e.Passed:
		c.rec.Log(history.Event{At: at, Kind: history.Passed, Lock: call})
	case e.Kind == redlock.EventSetsDiffer:
		c.rec.Log(history.Event{At: at, Kind: history.Sets, OK: e.Set.QuorumsMeet, Err: e.Set.String()})
	}
}

// waitsNow reports whether this is the first that is heard of the call's waiting.
func (c *client) waitsNow(call int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.waiting[call]
	c.waiting[call] = true
	return first
}

func (c *client) logExtension(call int, e redlock.Event, at int64) {
	c.mu.Lock()
	h := c.held[call]
	c.mu.Unlock()
	if h == nil {
		return
	}
	x := h.given // A lock is kept for what it was asked for.
	x.At, x.Op, x.Call, x.Lock, x.Bound, x.Detail = at-int64(e.Took), history.OpExtend, c.nextCall(), h.call, 0, "keep alive"
	c.rec.Log(x)
	x = c.returned(x)
	x.At = at
	setResult(&x, e.Err)
	if x.OK {
		x.Until = c.rec.Clock.Of(e.Until)
	}
	c.rec.Log(x)
}

// votes are those of an event that happened at a time, of the nodes of a set, if it is not all of the run's.
func votes(set []int, e redlock.Event, at int64) []history.Vote {
	all := make([]history.Vote, len(e.Votes))
	for i, v := range e.Votes {
		all[i] = history.Vote{Node: i, Says: says(v.Err)}
		if set != nil {
			all[i].Node = set[i]
		}
		if v.Took > 0 {
			all[i].At = at - int64(e.Took) + int64(v.Took)
		}
	}
	return all
}

func says(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	}
	return err.Error()
}

func (c *client) nextCall() int { return int(c.calls.Add(1)) }
