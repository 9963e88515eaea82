package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
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
	nodes   int // 0: three
	opts    []redlock.Option
	timeout time.Duration // for a node; 0: the default
	hook    func(s *scene)
	play    func(s *scene)

	away        int      // nodes that give no votes for minutes, as they are down or too late; most: more than a quorum can do without
	quarantined int      // nodes that are in quarantine
	fires       []string // besides what follows from these

	telling bool   // it is played in short, too: it is what tells most of an alert
	unaware bool   // the process knows nothing of its nodes, and so of no fault beside it
	alone   string // why it is not played beside a fault; empty: it is
	calm    bool   // it is not played beside lost packets, with which it may show something else
}

const most = -1

const evenNumber = "beside a fault there are five nodes"

// A fault is a second thing that is wrong while a situation is played, which five nodes can do with.
type fault struct {
	name  string
	begin func(s *scene)
	away  int // nodes that give no votes meanwhile: the last ones
	loss  bool
	fires []string // besides what follows from that
}

// faults are all of them, the hardest one last.
var faults = []fault{
	{name: "alone"},
	{name: "while a node is down", away: 1, begin: func(s *scene) { s.with(s.nodes[4:], (*testcluster.Node).Stop) }},
	{name: "while a node refuses writes", away: 1, begin: func(s *scene) { s.with(s.nodes[4:], refuseWrites) }},
	{name: "ten minutes after an outage", begin: func(s *scene) {
		begun := time.Now()
		s.calls.Go(func() {
			for time.Since(begun) < 8*time.Minute {
				_, _ = s.TryLock(s.ctx, []string{"outage"}, ttl)
				time.Sleep(5 * time.Second)
			}
		})
		s.pass(2 * time.Minute)
		s.with(s.nodes[:4], (*testcluster.Node).Stop)
		s.pass(5 * time.Minute)
		s.with(s.nodes[:4], keepingData)
		s.pass(11 * time.Minute)
	}},
	{name: "at 5 % loss", loss: true, begin: func(s *scene) {
		for _, n := range s.nodes { // TCP sends a lost packet again after 200 ms at least.
			n.Proxy().Lag(0.05, 210*time.Millisecond)
		}
	}},
	{name: "while a node answers too late", away: 1, fires: []string{"SlowNode"}, begin: func(s *scene) {
		late := s.timeout * 8 / 10 // Each way.
		s.with(s.nodes[4:], func(n *testcluster.Node) error { return n.Slow(late, late) })
	}},
}

// besides are the faults beside which it is played.
func (on situation) besides() (all []fault) {
	for _, f := range faults {
		if (on.alone == "" || f.begin == nil) && (!on.calm || !f.loss) {
			all = append(all, f)
		}
	}
	switch {
	case !testing.Short():
		return all
	case on.telling:
		return all[len(all)-1:]
	default:
		return nil
	}
}

func (on situation) size(beside fault) int {
	if beside.begin != nil {
		return 5
	}
	return cmp.Or(on.nodes, 3)
}

// expected returns the alerts that are to fire.
func (on situation) expected(beside fault) []string {
	if on.unaware {
		return slices.Clone(on.fires)
	}
	n := on.size(beside)
	spare, away := (n-1)/2, on.away
	if away == most {
		away = spare + 1
	}
	names := append(slices.Clone(on.fires), beside.fires...)
	if away += beside.away; away > 0 {
		names = append(names, "NodeDown")
	}
	switch away += on.quarantined; {
	case away > spare:
		names = append(names, "QuorumDown")
	case away == spare:
		names = append(names, "OneNodeFromNoQuorum")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// What the scenes are made of.

// shareNodes has a client with so many of the nodes, and one of its own.
func (s *scene) shareNodes(n int) {
	own := testcluster.RunBubble(s.t, 1).Nodes[0]
	s.with(append(slices.Clone(s.nodes), own), (*testcluster.Node).ShowUptime)
	other, err := redlock.New(append(slices.Clone(s.set[:n]), redlock.Node{Name: "own", Pool: own.Pool()}))
	require.NoError(s.t, err)
	s.every(5*time.Second, func() { _, _ = other.TryLock(s.ctx, []string{"other"}, time.Second) })
	s.calls.Go(func() {
		<-s.ctx.Done()
		_ = other.Close(context.WithoutCancel(s.ctx))
	})
}

// do does work under a lock for a time, and returns what becomes of it.
func (s *scene) do(resource string, d time.Duration) error {
	return s.Do(s.ctx, []string{resource}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		rest(ctx, d)
		return nil
	})
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// holds has a caller hold a lock for a time, beginning now.
func (s *scene) holds(resource string, d time.Duration) {
	s.calls.Go(func() { _ = s.do(resource, d) })
	time.Sleep(time.Second)
}

// impatient is a caller who waits for a second.
func (s *scene) impatient(resource string) error {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	_, err := s.Lock(ctx, []string{resource}, ttl, redlock.WithRetryCount(-1))
	return err
}

// service has the process do what it is there for: it locks, waits, and gives up.
func (s *scene) service() {
	s.every(10*time.Second, func() { _ = s.do("invoice:7", 100*time.Millisecond) })
	for range 2 {
		s.every(20*time.Second, func() { _ = s.do("report:daily", 6*time.Second) })
	}
	s.every(10*time.Second, func() { _ = s.impatient("report:daily") })
	s.pass(time.Minute)
}

// served has something happen to the process while it does so.
func served(happen func(s *scene)) func(s *scene) {
	return func(s *scene) {
		s.service()
		happen(s)
		s.pass(6 * time.Minute)
	}
}

// with does something to some nodes.
func (s *scene) with(nodes []*testcluster.Node, do func(n *testcluster.Node) error) {
	s.t.Helper()
	for _, n := range nodes {
		require.NoError(s.t, do(n))
	}
}

// absent has the process stand still for so long, as Prometheus sees it.
func (s *scene) absent(d time.Duration) {
	s.gone = true
	s.pass(d)
	s.gone = false
}

// refuseWrites has a node answer as Redis does that cannot save: subscriptions go on.
func refuseWrites(n *testcluster.Node) error {
	return refuse(n, "MISCONF no snapshot can be saved", func(cmd string) bool { return cmd != "SUBSCRIBE" })
}

// deaf has nodes refuse subscriptions.
func deaf(n *testcluster.Node) error {
	return refuse(n, "NOPERM no permissions to access one of the channels", func(cmd string) bool { return cmd == "SUBSCRIBE" })
}

func refuse(n *testcluster.Node, why string, which func(cmd string) bool) error {
	return n.OnCommand(func(cmd string, _ []string) {
		no := ""
		if which(cmd) {
			no = why
		}
		_ = n.SetError(no)
	})
}

func (s *scene) stop(n int) { s.with(s.nodes[:n], (*testcluster.Node).Stop) }

// most are so many nodes that the others are no quorum.
func (s *scene) most() []*testcluster.Node { return s.nodes[:len(s.nodes)/2+1] }

func tooLate(n *testcluster.Node) error { return n.Slow(200*time.Millisecond, 200*time.Millisecond) }

// admit ends the quarantine of new nodes, as far as they can be reached.
func (s *scene) admit() {
	for range 5 {
		for _, n := range s.Stats().Nodes {
			_ = s.Admit(s.ctx, n.Node)
		}
	}
}

// others has so many callers wait for a lock until they have it.
func (s *scene) others(n int, resource string) {
	for range n {
		s.calls.Go(func() {
			if l, err := s.Lock(s.ctx, []string{resource}, ttl, redlock.WithRetryCount(-1)); err == nil {
				_ = l.Unlock(s.ctx)
			}
		})
	}
}

func keepingData(n *testcluster.Node) error { return n.Restart(true) }

func losingData(n *testcluster.Node) error { return n.Restart(false) }

var situations = map[string]situation{
	"nothing was locked yet": {telling: true, unaware: true, play: func(s *scene) { s.pass(6 * time.Minute) }},
	"all is well":            {telling: true, play: func(s *scene) { s.service(); s.pass(20 * time.Minute) }},
	"after Close": {telling: true, unaware: true, play: func(s *scene) {
		require.NoError(s.t, s.do("x", time.Second))
		s.pass(time.Minute)
		require.NoError(s.t, s.Close(s.ctx))
		s.pass(6 * time.Minute)
	}},
	"nodes are restarted in turn, between two looks": {play: served(func(s *scene) {
		s.calls.Go(func() { assert.NoError(s.t, s.do("x", 5*time.Minute)) })
		for i := range s.nodes {
			time.Sleep(5 * time.Second)
			s.with(s.nodes[i:i+1], (*testcluster.Node).Stop)
			time.Sleep(10 * time.Second)
			s.with(s.nodes[i:i+1], keepingData)
			s.pass(time.Minute)
		}
	})},
	"Close and MaxHold end holds": {opts: []redlock.Option{redlock.WithMaxHold(20 * time.Second)}, play: func(s *scene) {
		s.every(time.Second, func() { _ = s.do("job:long", time.Hour) })
		s.pass(6 * time.Minute)
		_ = s.Close(s.ctx)
		s.pass(6 * time.Minute)
	}},

	"one of four nodes is down": {nodes: 4, away: 1, alone: evenNumber, play: served(func(s *scene) { s.stop(1) })},
	"two of four nodes are down": {
		telling: true, nodes: 4, away: most, alone: evenNumber,
		play: served(func(s *scene) { s.stop(2) }), fires: []string{"NoQuorum"},
	},
	"one of three nodes is down": {away: 1, play: served(func(s *scene) { s.stop(1) })},
	"one of three nodes hangs":   {away: 1, play: served(func(s *scene) { s.with(s.nodes[:1], (*testcluster.Node).Hang) })},
	"one of three nodes answers too late": {
		telling: true, away: 1, play: served(func(s *scene) { s.with(s.nodes[:1], tooLate) }), fires: []string{"SlowNode"},
	},
	"one of three nodes refuses writes": {away: 1, play: served(func(s *scene) { s.with(s.nodes[:1], refuseWrites) })},
	"one of three nodes is in quarantine": {opts: []redlock.Option{redlock.WithQuarantine(10 * time.Minute)}, quarantined: 1, play: func(s *scene) {
		s.admit()
		s.service()
		s.with(s.nodes[:1], losingData)
		s.pass(6 * time.Minute)
	}},
	"most nodes are down, and somebody asks once in five minutes": {away: most, play: func(s *scene) {
		s.every(5*time.Minute, func() { _ = s.do("x", time.Second) })
		s.pass(time.Minute)
		s.with(s.most(), (*testcluster.Node).Stop)
		s.pass(15 * time.Minute)
	}, fires: []string{"NoQuorum"}},
	"all nodes stand still for three seconds": {telling: true, play: func(s *scene) {
		s.every(time.Second, func() { _, _ = s.TryLock(s.ctx, []string{"x"}, time.Second) })
		s.every(5*time.Minute, func() { _ = s.do("y", 0) })
		s.pass(5 * time.Minute)
		s.with(s.nodes, (*testcluster.Node).Hang)
		time.Sleep(3 * time.Second)
		s.with(s.nodes, (*testcluster.Node).Resume)
		s.pass(6 * time.Minute)
	}},
	"most nodes are down, and calls wait behind a lock that ends": {away: most, play: func(s *scene) {
		s.holds("job:long", time.Hour)
		s.others(5, "job:long")
		s.pass(2 * time.Minute)
		s.with(s.most(), (*testcluster.Node).Stop)
		s.pass(8 * time.Minute)
	}, fires: []string{"HoldLost"}},

	// With losses, a node's answer to the release may be missing, and then nothing shows that a quorum had lost the keys.
	"keys are flushed, and a Do finds out at its release": {play: func(s *scene) { flushed(s, 2500*time.Millisecond) }, calm: true, fires: []string{"HoldLost", "KeysVanish"}},
	"keys are flushed, and an extension finds out":        {telling: true, play: func(s *scene) { flushed(s, time.Hour) }, fires: []string{"HoldLost", "KeysVanish"}},
	"keys are flushed, and Unlock finds out": {play: served(func(s *scene) {
		l, err := s.TryLock(s.ctx, []string{"plain"}, ttl)
		require.NoError(s.t, err)
		time.Sleep(time.Second) // What is late would come after the flush.
		s.with(s.most(), (*testcluster.Node).Flush)
		require.ErrorIs(s.t, l.Unlock(s.ctx), redlock.ErrLost)
	}), calm: true, fires: []string{"HoldLost", "KeysVanish"}},
	"work takes longer than its lock": {play: served(func(s *scene) {
		l, err := s.TryLock(s.ctx, []string{"plain"}, ttl)
		require.NoError(s.t, err)
		s.pass(time.Minute)
		require.ErrorIs(s.t, l.Unlock(s.ctx), redlock.ErrExpired)
	}), fires: []string{"HoldLost"}},
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

	"a process stands still, and has lost its lock": {telling: true, play: func(s *scene) {
		s.service()
		s.calls.Go(func() { assert.ErrorIs(s.t, s.do("x", time.Hour), redlock.ErrExpired) })
		s.pass(6 * time.Minute)
		s.with(s.nodes, (*testcluster.Node).Hang) // Which the process does not tell.
		s.absent(6*time.Minute + scrapeEvery)
		s.with(s.nodes, (*testcluster.Node).Resume)
		s.pass(6 * time.Minute)
	}, fires: []string{"HoldLost", "ProcessGone"}},
	"the last process of a job is gone for good": {play: func(s *scene) {
		s.service()
		s.pass(3 * time.Minute) // Of a fault beside it, it has told.
		s.dropped = true
		s.pass(6 * time.Minute)
	}, fires: []string{"ProcessGone"}},
	"another process has other nodes": {telling: true, play: func(s *scene) {
		s.service()
		s.beside = []string{"node-1", "node-9"}
		s.pass(6 * time.Minute)
	}, fires: []string{"SetsApart"}},
	"a client of another job has other nodes": {telling: true, play: func(s *scene) {
		s.shareNodes(2)
		s.service()
		s.pass(6 * time.Minute)
	}, fires: []string{"SetsDiffer"}},
	"a client of another job has a node more": {play: func(s *scene) {
		s.shareNodes(len(s.nodes))
		s.service()
		s.pass(6 * time.Minute)
	}},
	"another process has a node more, as a set grows": {play: func(s *scene) {
		s.service()
		s.beside = []string{"node-0"}
		for i := range s.nodes {
			s.beside = append(s.beside, "node-"+strconv.Itoa(i+1))
		}
		s.pass(6 * time.Minute)
	}},
	"a lock is released for its holder": {telling: true, alone: "a node that is late, or down, has not lost as many keys as the others, which looks like a fault", play: func(s *scene) {
		s.service()
		broken := make(chan string, 1)
		s.calls.Go(func() {
			assert.ErrorIs(s.t, s.Do(s.ctx, []string{"x"}, ttl, func(ctx context.Context, l *redlock.Lock) error {
				broken <- l.Token()
				<-ctx.Done()
				return nil
			}), redlock.ErrLost)
		})
		token := <-broken
		s.pass(time.Minute)
		other, err := redlock.New(s.set)
		require.NoError(s.t, err)
		require.NoError(s.t, other.Release(s.ctx, []string{"x"}, token))
		require.NoError(s.t, other.Close(s.ctx))
		s.pass(6 * time.Minute)
	}, fires: []string{"HoldLost"}},
	"nodes refuse subscriptions": {telling: true, play: func(s *scene) {
		for _, n := range s.nodes[:min(4, len(s.nodes))] { // The fifth has the fault beside it.
			s.with([]*testcluster.Node{n}, deaf)
		}
		s.service()
		s.holds("job:long", time.Hour)
		s.others(2, "job:long")
		s.pass(6 * time.Minute)
	}, fires: []string{"NodeDeaf"}},
	"a lock is held for ever, and callers give up on it": {telling: true, play: func(s *scene) {
		s.holds("job:long", 2*time.Hour)
		s.every(time.Minute, func() { _ = s.impatient("job:long") })
		s.pass(40 * time.Minute)
	}, fires: []string{"HeldLong"}},
	"waits are long": {telling: true, opts: []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryDelay(10 * time.Second)}, play: func(s *scene) {
		for range 3 {
			s.every(time.Second, func() { _ = s.do("job:long", time.Minute) })
		}
		s.pass(25 * time.Minute)
	}, fires: []string{"WaitsLong"}},
	"a holder is stuck": {telling: true, play: func(s *scene) {
		s.service()
		s.holds("job:stuck", time.Hour)
		s.others(30, "job:stuck")
		s.pass(10 * time.Minute)
	}, fires: []string{"HolderStuck"}},
	"a leader leads, and others stand by": {play: func(s *scene) {
		s.service()
		s.holds("leader:shop", time.Hour)
		s.others(2, "leader:shop")
		s.pass(10 * time.Minute)
	}},
	"a node is far away": {play: served(func(s *scene) {
		s.with(s.nodes[:1], func(n *testcluster.Node) error { return n.Slow(75*time.Millisecond, 75*time.Millisecond) })
	}), fires: []string{"SlowNode"}},
	// Nodes that take 2 ms for a command. No attempt that has its turn fails: that would be another alert.
	"more is asked for than the nodes can serve": {telling: true, calm: true, timeout: time.Second, play: func(s *scene) {
		s.with(s.nodes[:min(len(s.nodes), 4)], func(n *testcluster.Node) error { // The fifth one has the other fault.
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
	"the hook is too slow": {telling: true, hook: func(s *scene) { <-s.ctx.Done() }, play: func(s *scene) {
		for i := range 1000 {
			_ = s.do(fmt.Sprint("x:", i), 0)
		}
		s.service()
		s.pass(20 * time.Minute)
	}, fires: []string{"TelemetryIncomplete"}},
}

// flushed has most nodes lose their data, once, under work that takes so long.
func flushed(s *scene, work time.Duration) {
	s.t.Helper()
	s.service()
	s.calls.Go(func() { assert.ErrorIs(s.t, s.do("x", work), redlock.ErrLost) })
	time.Sleep(2 * time.Second)                 // What is late would come after the flush; the first extension comes after 2.6 s.
	s.with(s.most(), (*testcluster.Node).Flush) // Of all, it would look like releases by somebody else.
	s.pass(6 * time.Minute)
}
