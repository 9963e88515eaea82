package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 9 * time.Second

// A situation is one that a process gets into, with the alerts that are to fire in it; no others.
type situation struct {
	nodes int // 0: three
	opts  []redlock.Option
	hook  func(s *scene)
	play  func(s *scene)
	fires []string
}

// What the scenes are made of.

// do does work under a lock for a time, and returns what becomes of it.
func (s *scene) do(resource string, d time.Duration) error {
	return s.Do(s.ctx, []string{resource}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return nil
	})
}

// service has the process do what it is there for: it locks, waits, and gives up.
func (s *scene) service() {
	s.every(10*time.Second, func() { _ = s.do("invoice:7", 100*time.Millisecond) })
	for range 2 {
		s.every(20*time.Second, func() { _ = s.do("report:daily", 6*time.Second) })
	}
	s.every(10*time.Second, func() { // A user who does not wait for long.
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		_, _ = s.Lock(ctx, []string{"report:daily"}, ttl, redlock.WithRetryCount(-1))
	})
	s.pass(time.Minute)
}

// with does something to some nodes.
func (s *scene) with(nodes []*testcluster.Node, do func(n *testcluster.Node) error) {
	s.t.Helper()
	for _, n := range nodes {
		require.NoError(s.t, do(n))
	}
}

func (s *scene) stop(n int) { s.with(s.nodes[:n], (*testcluster.Node).Stop) }

func keepingData(n *testcluster.Node) error { return n.Restart(true) }

func losingData(n *testcluster.Node) error { return n.Restart(false) }

var situations = map[string]situation{
	"nothing was locked yet": {play: func(s *scene) { s.pass(6 * time.Minute) }},
	"all is well":            {play: func(s *scene) { s.service(); s.pass(20 * time.Minute) }},
	"after Close": {play: func(s *scene) {
		require.NoError(s.t, s.do("x", time.Second))
		s.pass(time.Minute)
		require.NoError(s.t, s.Close(s.ctx))
		s.pass(6 * time.Minute)
	}},
	"a node is restarted": {play: func(s *scene) {
		s.service()
		s.stop(1)
		s.pass(time.Minute)
		s.with(s.nodes[:1], keepingData)
		s.pass(6 * time.Minute)
	}},
	"nodes are restarted in turn, between two looks": {play: func(s *scene) {
		s.service()
		s.calls.Go(func() { assert.NoError(s.t, s.do("x", 5*time.Minute)) })
		for i := range s.nodes {
			time.Sleep(5 * time.Second)
			s.with(s.nodes[i:i+1], (*testcluster.Node).Stop)
			time.Sleep(10 * time.Second)
			s.with(s.nodes[i:i+1], keepingData)
			s.pass(time.Minute)
		}
		s.pass(6 * time.Minute)
	}},
	"a node stalls now and then": {play: func(s *scene) {
		s.service()
		s.every(11*time.Second, func() { _ = s.do("x", 20*time.Second) })
		for range 6 {
			time.Sleep(7 * time.Second)
			s.with(s.nodes[:1], (*testcluster.Node).Hang)
			time.Sleep(8 * time.Second)
			s.with(s.nodes[:1], (*testcluster.Node).Resume)
			s.pass(time.Minute)
		}
		s.pass(6 * time.Minute)
	}},
	"callers give up on a lock that is held": {play: func(s *scene) {
		s.every(time.Minute, func() { _ = s.do("job:long", time.Hour) })
		s.every(10*time.Second, func() {
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			defer cancel()
			_, _ = s.Lock(ctx, []string{"job:long"}, ttl)
		})
		s.pass(6 * time.Minute)
	}},
	"Close and MaxHold end holds": {opts: []redlock.Option{redlock.WithMaxHold(20 * time.Second)}, play: func(s *scene) {
		s.every(time.Second, func() { _ = s.do("job:long", time.Hour) })
		s.pass(6 * time.Minute)
		_ = s.Close(s.ctx)
		s.pass(6 * time.Minute)
	}},

	"one of five nodes is down":  {nodes: 5, play: func(s *scene) { s.service(); s.stop(1); s.pass(6 * time.Minute) }, fires: []string{"NodeDown"}},
	"two of five nodes are down": {nodes: 5, play: func(s *scene) { s.service(); s.stop(2); s.pass(6 * time.Minute) }, fires: []string{"NodeDown", "OneNodeFromNoQuorum"}},
	"one of three nodes is down": {play: func(s *scene) { s.service(); s.stop(1); s.pass(6 * time.Minute) }, fires: []string{"NodeDown", "OneNodeFromNoQuorum"}},
	"one of three nodes hangs": {play: func(s *scene) {
		s.service()
		s.with(s.nodes[:1], (*testcluster.Node).Hang)
		s.pass(6 * time.Minute)
	}, fires: []string{"NodeDown", "OneNodeFromNoQuorum"}},
	"one of three nodes is in quarantine": {opts: []redlock.Option{redlock.WithQuarantine(10 * time.Minute)}, play: func(s *scene) {
		require.NoError(s.t, s.Admit(s.ctx, "node-1", "node-2", "node-3"))
		s.service()
		s.with(s.nodes[:1], losingData)
		s.pass(6 * time.Minute)
	}, fires: []string{"OneNodeFromNoQuorum"}},
	"two of three nodes are down, and nobody locks": {play: func(s *scene) {
		require.NoError(s.t, s.do("x", time.Second))
		s.stop(2)
		s.pass(6 * time.Minute)
	}, fires: []string{"NodeDown", "QuorumDown"}},
	"two of three nodes are down, and callers have deadlines": {play: func(s *scene) {
		require.NoError(s.t, s.do("x", time.Second))
		s.stop(2)
		s.every(10*time.Second, func() {
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			defer cancel()
			_, err := s.Lock(ctx, []string{"y"}, ttl, redlock.WithRetryCount(-1))
			assert.ErrorIs(s.t, err, context.DeadlineExceeded)
		})
		s.pass(6 * time.Minute)
	}, fires: []string{"NoQuorum", "NodeDown", "QuorumDown"}},
	"no node can be reached from the start": {play: func(s *scene) {
		s.stop(3)
		s.every(10*time.Second, func() { _ = s.do("x", time.Second) })
		s.pass(6 * time.Minute)
	}, fires: []string{"NoQuorum", "NodeDown", "QuorumDown"}},

	"keys are flushed, and a Do finds out at its release": {play: func(s *scene) { flushed(s, 2*time.Second) }, fires: []string{"HoldLost"}},
	"keys are flushed, and an extension finds out":        {play: func(s *scene) { flushed(s, time.Hour) }, fires: []string{"HoldLost"}},
	"keys are flushed, and Unlock finds out": {play: func(s *scene) {
		s.service()
		l, err := s.TryLock(s.ctx, []string{"plain"}, ttl)
		require.NoError(s.t, err)
		s.with(s.nodes, (*testcluster.Node).Flush)
		require.ErrorIs(s.t, l.Unlock(s.ctx), redlock.ErrLost)
		s.pass(6 * time.Minute)
	}, fires: []string{"HoldLost"}},
	"work takes longer than its lock": {play: func(s *scene) {
		s.service()
		l, err := s.TryLock(s.ctx, []string{"plain"}, ttl)
		require.NoError(s.t, err)
		s.pass(time.Minute)
		require.ErrorIs(s.t, l.Unlock(s.ctx), redlock.ErrExpired)
		s.pass(6 * time.Minute)
	}, fires: []string{"HoldLost"}},
	"nodes hang for longer than a ttl": {play: func(s *scene) {
		s.calls.Go(func() { assert.ErrorIs(s.t, s.do("x", time.Hour), redlock.ErrExpired) })
		s.pass(time.Minute)
		s.with(s.nodes, (*testcluster.Node).Hang)
		s.pass(time.Minute)
		s.with(s.nodes, (*testcluster.Node).Resume)
		s.pass(6 * time.Minute)
	}, fires: []string{"HoldLost"}},
	"a node restarts at once, without its data": {play: func(s *scene) {
		s.calls.Go(func() { assert.NoError(s.t, s.do("x", 5*time.Minute)) })
		s.pass(time.Minute)
		s.with(s.nodes[:1], losingData)
		s.pass(6 * time.Minute)
	}, fires: []string{"KeysVanish"}},
	"a node is restarted without its data, which takes a second": {play: func(s *scene) {
		for i := range 30 {
			s.every(time.Second, func() { _ = s.do(fmt.Sprint("x:", i), 2*time.Minute) })
		}
		s.pass(time.Minute)
		s.stop(1)
		time.Sleep(time.Second)
		s.with(s.nodes[:1], losingData)
		s.pass(6 * time.Minute)
	}, fires: []string{"KeysVanish"}},
	"a node is flushed, and gets keys back": {play: func(s *scene) {
		s.calls.Go(func() { assert.NoError(s.t, s.do("x", 5*time.Minute)) })
		s.pass(time.Minute)
		s.with(s.nodes[:1], (*testcluster.Node).Flush)
		s.pass(6 * time.Minute)
	}, fires: []string{"KeysVanish"}},

	"waits are long": {opts: []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryDelay(10 * time.Second)}, play: func(s *scene) {
		for range 3 {
			s.every(time.Second, func() { _ = s.do("job:long", time.Minute) })
		}
		s.pass(25 * time.Minute)
	}, fires: []string{"WaitsLong"}},
	"a node is far away": {play: func(s *scene) {
		s.service()
		s.with(s.nodes[:1], func(n *testcluster.Node) error { return n.Slow(75*time.Millisecond, 75*time.Millisecond) })
		s.pass(6 * time.Minute)
	}, fires: []string{"SlowNode"}},
	// Nodes that take 2 ms for a command. No attempt that has its turn fails: that would be another alert.
	"more is asked for than the nodes can serve": {opts: []redlock.Option{redlock.WithNodeTimeout(time.Second)}, play: func(s *scene) {
		s.with(s.nodes, func(n *testcluster.Node) error {
			return n.OnCommand(func(cmd string, _ []string) {
				if cmd != "PTTL" { // It comes with a lock's SET.
					time.Sleep(2 * time.Millisecond)
				}
			})
		})
		s.every(100*time.Second, func() {
			for i := range 600 {
				s.calls.Go(func() { _, _ = s.TryLock(s.ctx, []string{fmt.Sprint("x:", i)}, ttl) })
			}
		})
		s.pass(8 * time.Minute)
	}, fires: []string{"Overloaded"}},
	"the hook is too slow": {hook: func(s *scene) { <-s.ctx.Done() }, play: func(s *scene) {
		for i := range 1000 {
			_ = s.do(fmt.Sprint("x:", i), 0)
		}
		s.service()
		s.pass(20 * time.Minute)
	}, fires: []string{"TelemetryIncomplete"}},
}

// flushed has all nodes lose their data, once, under work that takes so long.
func flushed(s *scene, work time.Duration) {
	s.t.Helper()
	s.service()
	s.calls.Go(func() { assert.ErrorIs(s.t, s.do("x", work), redlock.ErrLost) })
	time.Sleep(time.Second)
	s.with(s.nodes, (*testcluster.Node).Flush)
	s.pass(6 * time.Minute)
}

// The example shows all of the dashboard's panels.
func TestPanelsHaveData(t *testing.T) {
	promtool(t)
	s := inScene(t, situation{play: func(s *scene) {
		s.with(s.nodes, func(n *testcluster.Node) error { return n.Slow(time.Millisecond, time.Millisecond) })
		for i := range 4 {
			s.calls.Go(func() { work(s.ctx, s.Redlock, i) })
		}
		s.pass(6 * time.Minute)
	}})
	s.t = t
	s.ask(panels(t)...)
}
