package client

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

// leastTurn and mostTurn are limits of turns: a tenth of each validity is more.
const leastTurn, mostTurn = 5 * time.Millisecond, 50 * time.Millisecond

// plain is a call for these resources that is given nothing else.
func (c *client) plain(resources ...string) history.Event {
	return history.Event{Resources: resources, TTL: c.cfg.TTL}
}

// wish draws what the next call is given. All options meet on the same resources: a rule that only a combination breaks is
// not seen where each has resources of its own.
func (c *client) wish(rng *rand.Rand) history.Event {
	e := c.plain(c.draw(rng)...)
	now := func(n int, to *int64, least, most time.Duration) {
		if oneIn(rng, n) && most > least {
			*to = int64(between(rng, least, most))
		}
	}
	now(3, &e.TTL, c.ttl*2/3, c.longest())
	now(4, &e.NodeTimeout, c.nodeTimeout()*2/3, c.nodeTimeout()*2)
	now(6, &e.StopTime, 0, time.Duration(e.TTL)/2)
	now(6, &e.MaxHold, c.ttl/32, 2*c.ttl)
	// The longest attempt comes on top of a min hold, and nodes may be asked for no more than the longest ttl.
	now(5, &e.MinHold, c.ttl/32, min(c.ttl/2, (c.longest()-min(3*c.timeout(e), time.Duration(e.TTL)))*4/5))
	if oneIn(rng, 5) {
		e.Drift = 0.01 + rng.Float64()/20 // Clocks of nodes are wrong by nearly as much as the default allows for.
	}
	if e.MinHold == 0 {
		now(3, &e.Turn, leastTurn, mostTurn)
	}
	e.Polls = oneIn(rng, 10)
	return e
}

// draw picks what to lock: mostly one resource, or up to eight, all with fences or all without.
func (c *client) draw(rng *rand.Rand) []string {
	if c.cfg.Quiet && oneIn(rng, 4) {
		return []string{"order-" + strconv.FormatUint(rng.Uint64(), 36)} // A name that is never used again, as most are.
	}
	n, all := []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 16}[rng.IntN(12)], c.cfg.Resources
	if n > 1 {
		all = all[len(all)/2:] // Who waits for several keeps each from others for a while, and from the rules about them.
	}
	some := []string{all[min(rng.IntN(len(all)), rng.IntN(len(all)))]} // The first ones are wanted most.
	for range n - 1 {
		if res := all[rng.IntN(len(all))]; slices.Contains(c.cfg.Fenced, res) == slices.Contains(c.cfg.Fenced, some[0]) {
			some = append(some, res)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(some)))
}

// longest is the longest ttl that this process may ask for.
func (c *client) longest() time.Duration { return cmp.Or(time.Duration(c.cfg.MaxTTL), c.ttl*3/2) }

func (c *client) nodeTimeout() time.Duration { return time.Duration(c.cfg.NodeTimeout) }

// timeout is the node timeout of a call.
func (c *client) timeout(e history.Event) time.Duration {
	return cmp.Or(time.Duration(e.NodeTimeout), c.nodeTimeout())
}

// given are the options of a call. Of some resources the locks have fences.
func (c *client) given(e history.Event) []redlock.Option {
	opts := []redlock.Option{
		redlock.WithRetryCount(-1), redlock.WithNodeTimeout(c.timeout(e)),
		redlock.WithMinHold(time.Duration(e.MinHold)), redlock.WithStopTime(time.Duration(e.StopTime)), redlock.WithTurn(time.Duration(e.Turn)),
	}
	if e.MaxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(time.Duration(e.MaxHold)))
	}
	if e.Drift > 0 {
		opts = append(opts, redlock.WithDriftFactor(e.Drift))
	}
	if e.Polls {
		opts = append(opts, redlock.WithPolling(), redlock.WithRetryDelay(40*time.Millisecond))
	}
	if slices.Contains(c.cfg.Fenced, e.Resources[0]) {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

// of is the Redlock that makes a call: of those that poll, and stand in no line, every other one goes over slow connections.
func (c *client) of(e history.Event) *redlock.Redlock {
	switch {
	case slices.Contains(c.cfg.Bare, e.Resources[0]):
		return c.bare
	case e.Polls && e.Call%2 == 0:
		return c.far
	}
	return c.lib
}

func oneIn(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }
