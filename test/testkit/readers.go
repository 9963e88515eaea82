package testkit

import (
	"bytes"
	"net"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Readers counts who reads from the connections of a node.
type Readers struct {
	Callers atomic.Int64 // reads of callers, on their own goroutines
	Others  atomic.Int64
}

// Take returns how often callers have read since the last Take, and how often others.
func (r *Readers) Take() (callers, others int64) { return r.Callers.Swap(0), r.Others.Swap(0) }

// ReadBy returns a cluster's nodes, and who reads from the first one's connections.
func ReadBy(c *testcluster.Cluster) ([]redlock.Node, *Readers) {
	nodes, readers := NodesOf(c), new(Readers)
	for i, n := range c.Nodes {
		nodes[i].Pool = DialerOf(n)
	}
	nodes[0].Pool = DialerOf(c.Nodes[0], func(c net.Conn) net.Conn { return &readConn{c, readers} })
	return nodes, readers
}

type readConn struct {
	net.Conn

	by *Readers
}

func (c *readConn) Read(b []byte) (int, error) {
	if bytes.Contains(debug.Stack(), []byte("redlock.(*round)")) {
		c.by.Callers.Add(1)
	} else {
		c.by.Others.Add(1)
	}
	return c.Conn.Read(b)
}

// SyscallConn implements [syscall.Conn].
func (c *readConn) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }
