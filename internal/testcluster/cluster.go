package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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
