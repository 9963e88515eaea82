package election_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/election"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A wire is what leads from a candidate to all nodes.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// set cuts it, or restores it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// dial connects to a node, unless the wire is cut.
func (w *wire) dial(ctx context.Context, n *testcluster.Node) (redis.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errors.New("cut off")
	}
	c, err := n.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, c)
	return redis.NewConn(c, 0, 0), nil
}

// over returns a Redlock with a wire of its own.
func over(t *testing.T, c *testcluster.Cluster) (*redlock.Redlock, *wire) {
	t.Helper()
	w := &wire{}
	var nodes []redlock.Node
	for _, n := range c.Nodes {
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return w.dial(ctx, n)
		})})
	}
	return testkit.NewOver(t, nodes, redlock.WithoutLog()), w
}

// A fleet are candidates that stand again and again, and what all of them know: who leads, and the last fence.
type fleet struct {
	t       *testing.T
	leading atomic.Int64
	terms   atomic.Int64
	fence   atomic.Int64
}

const (
	fleetTTL = 2 * time.Second
	stopTime = fleetTTL / 4
)

// stand leads whenever it can, and takes nearly its stop time to stop.
func (f *fleet) stand(ctx context.Context, e *election.Election) {
	for {
		term, err := e.Campaign(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				f.t.Errorf("campaign: %v", err)
			}
			return
		}
		if n := f.leading.Add(1); n != 1 {
			f.t.Errorf("%d lead", n)
		}
		if was := f.fence.Swap(term.Fence()); was >= term.Fence() {
			f.t.Errorf("fence %d after %d", term.Fence(), was)
		}
		f.terms.Add(1)
		<-term.Context().Done()
		time.Sleep(stopTime * 8 / 10)
		f.leading.Add(-1)
		_ = term.Resign(ctx)
	}
}

// Candidates are cut off, nodes die, restart without what they had where nobody holds it, and come back.
func TestLeadersAreNeverTwo(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		f := &fleet{t: t}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		es, wires := make([]*election.Election, 3), make([]*wire, 3)
		for i := range es {
			var r *redlock.Redlock
			r, wires[i] = over(t, c)
			var err error
			es[i], err = election.New(r, name, fleetTTL, redlock.WithStopTime(stopTime))
			require.NoError(t, err)
			all.Go(func() { f.stand(ctx, es[i]) })
		}
		rounds := int64(30)
		if testing.Short() {
			rounds = 10
		}
		for i := range rounds {
			time.Sleep(2*fleetTTL + time.Duration(i)*17*time.Millisecond)
			restore := func() {}
			leads := -1
			for j, e := range es {
				if e.IsLeader() {
					require.Negative(t, leads, "two by their own clocks")
					leads = j
				}
			}
			if i%5 == 4 {
				three := c.First(3)
				require.NoError(t, three.Stop())
				restore = func() { require.NoError(t, three.Restart(true)) }
			} else if leads >= 0 {
				wires[leads].set(true)
				restore = func() { wires[leads].set(false) }
			}
			time.Sleep(fleetTTL * time.Duration(70+i*17%100) / 100) // Some are too short to end a term.
			restore()
		}
		stop()
		all.Wait()
		require.Greater(t, f.terms.Load(), rounds/2)
	})
}
