package main

import (
	"context"
	"math/rand/v2"
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
		c.do("hold", "") // Nothing, if it has or wants it already.
		if between(c.st.p.ttl/4, c.st.p.ttl/2) && c.do("write", "holds") && between(c.st.p.ttl/8, c.st.p.ttl/4) {
			c.do("release", "holds")
		}
	}
}

// do has the client do something if it is in this state.
func (c *client) do(what, state string) bool {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	if c.state() != state {
		return false
	}
	calls[what](c)
	return true
}
