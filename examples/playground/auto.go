package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// setAuto has the clients lock and release by themselves, or ends that.
func (st *stage) setAuto(on bool) error {
	p := st.p
	p.mu.Lock()
	if p.auto == on {
		p.mu.Unlock()
		return nil
	}
	p.auto = on
	if !on {
		st.stopAuto()
		p.mu.Unlock()
		p.say(info, "", "The clients do nothing by themselves any more.")
		return nil
	}
	ctx, cancel := context.WithCancel(st.ctx)
	st.stopAuto = cancel
	p.mu.Unlock()
	p.say(info, "", "The clients lock and release by themselves. Disturb them: kill a node, or suspend a client.")
	for _, c := range st.clients {
		st.wg.Go(func() { c.liveOn(ctx) })
	}
	return nil
}

// liveOn is what a client does by itself: it locks, works for a while, writes, and releases.
func (c *client) liveOn(ctx context.Context) {
	between := func(low, high time.Duration) bool { return sleep(ctx, low+rand.N(high-low)) }
	for between(c.st.p.ttl/8, c.st.p.ttl) {
		c.acquire() //nolint:contextcheck // Its Lock ends with the stage, or when it is told to give up.
		for c.is("asks", "waits") {
			if !sleep(ctx, lookEvery) {
				return
			}
		}
		if !c.is("holds") {
			continue // It was refused, or lost.
		}
		c.keep(true)
		if !between(c.st.p.ttl/4, c.st.p.ttl/2) {
			return
		}
		c.write()
		if !between(c.st.p.ttl/8, c.st.p.ttl/4) {
			return
		}
		c.release()
	}
}

// is reports whether the client is in one of these states.
func (c *client) is(states ...string) bool {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	for _, s := range states {
		if c.state() == s {
			return true
		}
	}
	return false
}
