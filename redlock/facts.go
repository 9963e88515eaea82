package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/dispatch"
	"github.com/seed6c881748/redlock/internal/node"
)

// nodeFacts makes events of the facts about one node.
type nodeFacts struct {
	r        *core
	name     string
	wasUp    atomic.Bool
	vanished dispatch.Limiter // limits the events about vanished keys
}

// vanishedEvery is the least time between two events about keys that a node has lost: a flush loses many.
const vanishedEvery = time.Second

// report is the link's Config.Report. It is called with the mutex of the link or the subscriptions held.
func (n *nodeFacts) report(f node.Fact) {
	e := Event{Node: n.name, Err: f.Why}
	switch f.What {
	case node.Well:
		n.wasUp.Store(true)
		n.r.notes.begin()
		e.Kind = EventNodeUp
	case node.Lost:
		e.Kind, e.Err = EventNodeDown, fmt.Errorf("%w (%d of %d nodes left, a quorum is %d)", f.Why, n.r.ready.Up(), len(n.r.nodes), n.r.need)
		if d := &n.r.defaults; d.hook == nil && !d.silent && !n.wasUp.Load() { // The first attempt failed; await the second.
			time.AfterFunc(2*max(node.ConnectLimit(d.nodeTimeout), d.connectTimeout), func() { n.warnIfNeverUp(f.Why) })
		}
	case node.Settled:
		e.Kind, e.Unknown, e.Cleaned = EventNodeCleaned, f.Unknown, f.Released
	case node.Unresponsive:
		e.Kind = EventNodeUnresponsive
	case node.Vanished:
		if _, pass := n.vanished.Pass(f.At, vanishedEvery); !pass {
			return
		}
		e.Kind = EventKeysVanished
		e.Err = fmt.Errorf("keys that the node had said it holds are gone before their time (%s so far)", brief.Count(int(f.Times), "lock"))
	case node.Deaf:
		e.Kind = EventPolling
	case node.Wanted, node.Joined, node.Left, node.Stalled:
		return // Only the link uses these.
	}
	n.r.send(context.Background(), e)
}

// warnIfNeverUp logs that the node was never reached. With a quorum of other nodes, nobody may notice it otherwise.
func (n *nodeFacts) warnIfNeverUp(why error) {
	if n.wasUp.Load() || n.r.calls.Ended(context.Background()) != nil {
		return
	}
	up := n.r.ready.Up()
	left := "with one more failure nothing can be locked"
	switch spare := up - n.r.need; {
	case spare < 0:
		left = "nothing can be locked"
	case spare > 0:
		left = fmt.Sprintf("%d more may fail before nothing can be locked", spare)
	}
	slog.Warn("redlock: a node could not be connected to since the start: "+left, //nolint:sloglint // A default is what is wanted.
		"node", n.name, "error", why, "connected", up, "nodes", len(n.r.nodes), "quorum", n.r.need)
}
