package testkit

import (
	"bytes"
	"net"
	"sync"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A Tap sits on the connections of one client to one node, and can do to its
// subscriptions what networks do.
type Tap struct {
	mu         sync.Mutex
	subs       map[*tapConn]bool
	opened     int  // subscriptions ever
	unanswered bool // messages are lost
	ended      bool // nothing is connected to any more
}

// Tapped returns the nodes of a cluster, with a tap on each.
func Tapped(c *testcluster.Cluster) ([]redlock.Node, []*Tap) {
	nodes, taps := make([]redlock.Node, len(c.Nodes)), make([]*Tap, len(c.Nodes))
	for i, n := range c.Nodes {
		taps[i] = &Tap{subs: map[*tapConn]bool{}}
		nodes[i] = redlock.Node{Name: n.Name(), Pool: DialerOf(n, taps[i].on)}
	}
	return nodes, taps
}

// Cut breaks the subscriptions that there are.
func (t *Tap) Cut() {
	t.mu.Lock()
	subs := t.subs
	t.subs = map[*tapConn]bool{}
	t.mu.Unlock()
	for c := range subs {
		_ = c.Conn.Close()
	}
}

// End breaks the subscriptions for good, as the death of the client does.
func (t *Tap) End() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.Cut()
}

// on returns a connection with the tap on it.
func (t *Tap) on(c net.Conn) net.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		_ = c.Close()
	}
	return &tapConn{Conn: c, tap: t}
}

// Mute has all messages be lost from now on.
func Mute(taps []*Tap) {
	for _, t := range taps {
		t.SetMute(true)
	}
}

// SetMute has messages be lost, or not any more.
func (t *Tap) SetMute(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unanswered = on
}

// Open returns how many subscriptions there are, and how many there have been.
func (t *Tap) Open() (now, ever int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.subs), t.opened
}

type tapConn struct {
	net.Conn

	tap *Tap
}

func (c *tapConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nSUBSCRIBE\r\n")) {
		c.tap.mu.Lock()
		c.tap.subs[c] = true
		c.tap.opened++
		c.tap.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *tapConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		c.tap.mu.Lock()
		lost := c.tap.unanswered && c.tap.subs[c] && bytes.Contains(b[:n], []byte("\r\nmessage\r\n"))
		c.tap.mu.Unlock()
		if err != nil || !lost {
			return n, err
		}
	}
}

func (c *tapConn) Close() error {
	c.tap.mu.Lock()
	delete(c.tap.subs, c)
	c.tap.mu.Unlock()
	return c.Conn.Close()
}
