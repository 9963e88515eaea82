package testcluster

import "time"

// The methods of this file do to every node, one after the other, what the method of the same
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
