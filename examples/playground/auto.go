package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// setAuto has the clients lock and release by themselves, or ends that.
func (st *stage) setAuto(on bool) {
	p := st.p
	if p.auto == on {
		return
	}
	p.auto = on
	if !on {
		st.stopAuto()
		p.say(info, "", "The clients no longer lock and release by themselves.")
		return
	}
	ctx, cancel := context.WithCancel(st.ctx)
	st.stopAuto = cancel
	p.say(info, "", "The clients lock and release by themselves. Disturb them: kill a node, or suspend a client.")
	for _, c := range st.clients {
		st.wg.Go(func() { c.liveOn(ctx) })
	}
}

// liveOn is what a client does by itself: it locks, works for a while, writes, and releases.
func (c *client) liveOn(ctx context.Context) {
	between := func(low, high time.Duration) bool { return sleep(ctx, low+rand.N(high-low)) }
	for between(c.st.p.ttl/8, c.st.p.ttl) {
		c.do("lock")
		for c.is("asks", "waits") {
			if !sleep(ctx, lookEvery) {
				return
			}
		}
		if !c.is("holds") {
			continue // It was refused, or lost.
		}
		c.do("keep")
		if !between(c.st.p.ttl/4, c.st.p.ttl/2) {
			return
		}
		c.do("write")
		if !between(c.st.p.ttl/8, c.st.p.ttl/4) {
			return
		}
		c.do("release")
	}
}

// is reports whether the client is in one of these states.
func (c *client) is(states ...string) bool {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	return slices.Contains(states, c.state())
}

func (c *client) do(what string) {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	calls[what](c)
}
