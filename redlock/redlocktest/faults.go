package redlocktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// HangMajority makes more than half of the nodes hang, as frozen processes do:
// they stay connected and do not answer, until [Cluster.Recover]. Without a quorum
// every call fails with redlock.ErrNoQuorum once the node timeout is over (2 s
// by default); Lock retries. Contexts of Do and KeepAlive end at the lock's Until,
// with the cause redlock.ErrExpired, or WithStopTime's time before it, with redlock.ErrStopTime.
//
// A node that hangs carries out what was sent to it after Recover.
func (c *Cluster) HangMajority() {
	c.tb.Helper()
	for _, n := range c.nodes[:c.need()] {
		c.failed("HangMajority", n.Hang())
	}
}

// StopMajority makes more than half of the nodes go down, as killed processes do,
// until [Cluster.Recover]: connections break and new ones are refused. Calls fail
// with redlock.ErrNoQuorum at once; the rest is as with HangMajority. The nodes
// keep their keys.
func (c *Cluster) StopMajority() {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.nodes[:c.need()] {
		c.stopped[i] = true
		c.failed("StopMajority", n.Stop())
	}
}

// Slow makes every node answer a request d later than it would, half of it on
// the way to the node and half of it on the way back. The first call on a new
// connection takes twice that, as a handshake comes before it. 0 ends it.
//
// A node that is slower than the node timeout (2 s by default) is like one that hangs: calls
// fail with redlock.ErrNoQuorum. Messages on their way stay slow, even after another Slow;
// Recover ends that as well.
func (c *Cluster) Slow(d time.Duration) {
	c.tb.Helper()
	if d < 0 {
		c.tb.Errorf("redlocktest: Slow(%v): it takes 0 or more", d)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = c.slow || d > 0
	for _, n := range c.nodes {
		n.Proxy().SetDelays(d/2, d/2, d-d/2, d-d/2)
	}
}

// recovery bounds the wait of Recover; see there for what it takes.
const recovery = 30 * time.Second

// Recover ends HangMajority, StopMajority and Slow. If Slow was used, it breaks the
// connections, so that nothing slow is left on its way. Calls in progress then miss answers;
// use Slow(0) to leave them alone.
//
// It waits until c.Redlock, and others that NewRedlock has made, have heard from
// every node again: after that, their calls meet healthy nodes. That takes
// little more than 1 s at most, as that is how long a client may leave a node alone
// after failures, and mostly much less. What failed calls
// have left on nodes that did not answer has been removed by then, or is being.
func (c *Cluster) Recover() {
	c.tb.Helper()
	c.lift()
	ctx, cancel := context.WithTimeout(c.ctx, recovery)
	defer cancel()
	c.each(func(r *redlock.Redlock) {
		if !reach(ctx, r) {
			c.tb.Errorf("redlocktest: Recover: the nodes were not reached again within %v", recovery)
		}
	})
}

func (c *Cluster) lift() {
	c.tb.Helper()
	c.Slow(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	slow := c.slow
	c.slow = false
	for i, n := range c.nodes {
		if slow {
			n.Proxy().Kill()
		}
		c.failed("ending a fault", n.Resume())
		if c.stopped[i] {
			c.stopped[i] = false
			c.failed("ending a fault", n.Restart(true))
		}
	}
}

// reach waits until every node has answered r, and reports whether that happened before ctx ended.
func reach(ctx context.Context, r *redlock.Redlock) bool {
	for ctx.Err() == nil {
		in, err := r.Inspect(ctx, probe)
		if errors.Is(err, redlock.ErrClosed) {
			return true // Then there is nothing to reach.
		}
		silent := func(n redlock.NodeInspection) bool { return n.Err != nil }
		if err == nil && !slices.ContainsFunc(in.Nodes, silent) {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
