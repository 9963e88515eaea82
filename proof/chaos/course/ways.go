package course

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
)

// A way leads from one client to one node. Each pair has its own, so that clients can see different majorities.
type way struct {
	*testcluster.Proxy
	addr string
}

// addWay makes the way of the next client.
func (n *node) addWay(seed uint64) error {
	w := way{Proxy: testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", n.DirectAddr())
	})}
	w.SetSeed(seed*1_000_003 + uint64(len(n.ways)))
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
func (w way) calm() { w.SetDelay(0, 2*time.Millisecond) }

// suffer makes a fault of the network begin.
func (w way) suffer(how string) error {
	switch how {
	case plan.Reset:
		w.Reset()
	case plan.Cut:
		w.Kill()
	case plan.Drop:
		w.DropReplies(true)
	case plan.Mute:
		w.DropRequests(true)
	case plan.Slow:
		w.SetDelay(0, 60*time.Millisecond)
	case plan.Refuse:
		w.Refuse(true)
		w.Reset()
	case plan.Hole:
		w.BlackHole(true)
	default:
		return fmt.Errorf("no fault is called %q", how)
	}
	return nil
}

// recover makes it end. Connections that have lost bytes must not survive it: TCP may end, but never delivers what comes
// after them. Of requests, what is still on its way comes after them, too.
func (w way) recover(how string) {
	switch how {
	case plan.Drop:
		w.Refuse(true)
		w.Reset()
		w.DropReplies(false)
		w.Refuse(false)
	case plan.Mute:
		w.Refuse(true)
		w.Kill()
		w.DropRequests(false)
		w.Refuse(false)
	case plan.Slow:
		w.Reset()
		w.calm()
	case plan.Refuse:
		w.Refuse(false)
	case plan.Hole:
		w.BlackHole(false)
	}
}
