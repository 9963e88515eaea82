package course

import (
	"context"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
)

// muted gives a server a user who may not SUBSCRIBE.
var muted = []string{"--user", protocol.Mute, "on", "nopass", "~*", "&*", "+@all", "-subscribe"}

// A way leads from one client to one node. Each pair has its own, so that clients can see different majorities.
type way struct {
	*testcluster.Proxy
	addr string

	far, snap *atomic.Bool // Bytes take long; connections break with extensions.
}

// addWay makes the way of the next client.
func (n *node) addWay(p *plan.Plan, node int) error {
	snap, hidden := new(atomic.Bool), p.Conns[len(n.ways)] == protocol.Hidden
	w := way{far: new(atomic.Bool), snap: snap, Proxy: testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
		if hidden {
			return testcluster.DialHidden(n.DirectAddr), nil
		}
		var d net.Dialer
		server, err := d.DialContext(ctx, "tcp", n.DirectAddr())
		if err != nil {
			return nil, err
		}
		return &snapping{TCPConn: server.(*net.TCPConn), now: snap, known: make(map[string]bool)}, nil
	})}
	w.SetSeed((p.Seed+uint64(node))*1_000_003 + uint64(len(n.ways)))
	w.calm()
	w.LateBytes(10*time.Millisecond, plan.Late)
	var err error
	w.addr, err = w.Listen()
	n.ways = append(n.ways, w)
	return err
}

// nodes are the numbers of a client's.
func (c *client) nodes(r *run) (numbers []int) {
	for i := range r.nodes {
		if c.set == nil || slices.Contains(c.set, i) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// waysOf are the addresses of a client's nodes.
func (r *run) waysOf(c *client) (addrs []string) {
	for _, i := range c.nodes(r) {
		addrs = append(addrs, r.nodes[i].ways[c.number].addr)
	}
	return addrs
}

// calm is the network when nothing is wrong.
func (w way) calm() {
	if w.far.Load() {
		w.SetDelay(20*time.Millisecond, 60*time.Millisecond)
	} else {
		w.SetDelay(0, 2*time.Millisecond)
	}
}

// troubles are the faults of the network: how they begin, and how they end. Connections that have lost bytes must not survive
// that: TCP may end, but never delivers what comes after them. Of requests, what is still on its way comes after them, too.
var troubles = map[string]struct{ begin, end func(w way) }{
	plan.Reset:  {begin: way.Reset},
	plan.Cut:    {begin: way.Kill},
	plan.Drop:   {func(w way) { w.DropReplies(true) }, func(w way) { w.mend(way.Reset) }},
	plan.Mute:   {func(w way) { w.DropRequests(true) }, func(w way) { w.mend(way.Kill) }},
	plan.Slow:   {func(w way) { w.SetDelay(0, 60*time.Millisecond) }, func(w way) { w.Reset(); w.calm() }},
	plan.Refuse: {func(w way) { w.Refuse(true); w.Reset() }, func(w way) { w.Refuse(false) }},
	plan.Hole:   {func(w way) { w.BlackHole(true) }, func(w way) { w.BlackHole(false) }},
	plan.Snap:   {func(w way) { w.snap.Store(true) }, func(w way) { w.snap.Store(false) }},
	plan.Lag:    {begin: func(w way) { w.far.Store(true); w.calm() }},
}

// mend has bytes get there again, over new connections.
func (w way) mend(breaks func(way)) {
	w.Refuse(true)
	breaks(w)
	w.DropReplies(false)
	w.DropRequests(false)
	w.Refuse(false)
}

// meets has a trouble begin or end. Some have no end, and faults of another kind are none.
func (w way) meets(trouble func(way)) {
	if trouble != nil {
		trouble(w)
	}
}

// A snapping is a connection to a server that can break with an extension or a repair, just before or after the server gets
// that: with a request that gives a time to a token which was in one before. A lock request that is repeated is one, too.
type snapping struct {
	*net.TCPConn
	now   *atomic.Bool
	known map[string]bool // Tokens.
}

// asked is a token in a request, and the time that follows it if it is to get one.
var asked = regexp.MustCompile(`\n([0-9a-f]{32})(?: owner=\S*)?\r\n(\$\d+\r\n\d+\r\n)?`)

func (s *snapping) Write(b []byte) (int, error) {
	keeps := false
	for _, m := range asked.FindAllSubmatch(b, -1) {
		token := string(m[1])
		keeps = keeps || s.known[token] && m[2] != nil
		s.known[token] = true
	}
	if len(s.known) > 10_000 {
		clear(s.known) // Mostly of what is over.
	}
	if !keeps || !s.now.Load() {
		return s.TCPConn.Write(b)
	}
	defer func() { _ = s.Close() }()
	if rand.IntN(2) == 0 {
		return 0, net.ErrClosed // It does not get there.
	}
	return s.TCPConn.Write(b)
}
