package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Cluster is a set of independent nodes. Its creator owns it and ends it with
// [Cluster.Close]. It is safe for concurrent use.
type Cluster struct {
	// Nodes are the nodes in a fixed order. The slice must not be changed.
	Nodes []*Node

	closeOnce sync.Once
	closeErr  error
}

// Addrs returns the address of every node, as [Node.Addr] does.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// DialContext dials the node whose [Node.Addr] is addr, as [Node.Dial] does.
// It fits redis.DialContextFunc, for code that dials nodes by their address;
// network is ignored.
func (c *Cluster) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	for _, n := range c.Nodes {
		if addr == n.Addr() {
			return n.Dial(ctx)
		}
	}
	return nil, fmt.Errorf("testcluster: no node has the address %q", addr)
}

// SetSeed gives every node's proxy a seed of its own that follows from seed,
// see [Proxy.SetSeed].
func (c *Cluster) SetSeed(seed uint64) {
	for i, n := range c.Nodes {
		n.proxy.SetSeed(seed*1_000_003 + uint64(i))
	}
}

// Close closes the pools that the cluster handed out, ends the proxies and the
// servers, deletes their files and waits for all of it. It is safe to call
// more than once.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		errs := make([]error, len(c.Nodes))
		for i, n := range c.Nodes {
			errs[i] = n.close()
		}
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

// The methods below do to every node, one after the other, what the method of the same
// name of [Node] does to one. They end with the first error.

// First returns the first nodes as a cluster, for what only they do.
func (c *Cluster) First(n int) *Cluster { return &Cluster{Nodes: c.Nodes[:n]} }

// Stop calls [Node.Stop] for every node.
func (c *Cluster) Stop() error { return c.each((*Node).Stop) }

// Restart calls [Node.Restart] for every node.
func (c *Cluster) Restart(keepData bool) error {
	return c.each(func(n *Node) error { return n.Restart(keepData) })
}

// Hang calls [Node.Hang] for every node.
func (c *Cluster) Hang() error { return c.each((*Node).Hang) }

// Resume calls [Node.Resume] for every node.
func (c *Cluster) Resume() error { return c.each((*Node).Resume) }

// Slow calls [Node.Slow] for every node.
func (c *Cluster) Slow(minimum, maximum time.Duration) error {
	return c.each(func(n *Node) error { return n.Slow(minimum, maximum) })
}

// SetError calls [Node.SetError] for every node.
func (c *Cluster) SetError(msg string) error {
	return c.each(func(n *Node) error { return n.SetError(msg) })
}

// Set calls [Node.Set] for every node.
func (c *Cluster) Set(key, value string, ttl time.Duration) error {
	return c.each(func(n *Node) error { return n.Set(key, value, ttl) })
}

// Del calls [Node.Del] for every node.
func (c *Cluster) Del(key string) error {
	return c.each(func(n *Node) error { return n.Del(key) })
}

// FlushScripts calls [Node.FlushScripts] for every node.
func (c *Cluster) FlushScripts() error { return c.each((*Node).FlushScripts) }

// Reset calls [Proxy.Reset] for every node's.
func (c *Cluster) Reset() { c.eachProxy((*Proxy).Reset) }

// Kill calls [Proxy.Kill] for every node's.
func (c *Cluster) Kill() { c.eachProxy((*Proxy).Kill) }

// BlackHole calls [Proxy.BlackHole] for every node's.
func (c *Cluster) BlackHole(on bool) { c.eachProxy(func(p *Proxy) { p.BlackHole(on) }) }

// DropReplies calls [Proxy.DropReplies] for every node's.
func (c *Cluster) DropReplies(on bool) { c.eachProxy(func(p *Proxy) { p.DropReplies(on) }) }

func (c *Cluster) eachProxy(fn func(p *Proxy)) {
	for _, n := range c.Nodes {
		fn(n.Proxy())
	}
}

func (c *Cluster) each(fn func(n *Node) error) error {
	for _, n := range c.Nodes {
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}
