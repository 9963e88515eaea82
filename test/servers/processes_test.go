//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/election"
	"github.com/seed6c881748/redlock/redlock/stored"
	"github.com/seed6c881748/redlock/test/child"
)

// candidateNodes and candidateName have this program be a candidate of the test below.
const (
	candidateNodes = "ELECTION_NODES"
	candidateName  = "ELECTION_NAME"
	electionTTL    = 3 * time.Second
)

// TestCandidate is a process that stands for leader again and again, until its input ends. While it leads, it says so every
// few milliseconds, with an instant at which it led. A line has it resign.
func TestCandidate(t *testing.T) {
	name := os.Getenv(candidateName)
	if name == "" {
		t.Skip("it is a child of TestElectionOfProcesses")
	}
	var nodes []redlock.Node
	for _, addr := range strings.Fields(os.Getenv(candidateNodes)) {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithoutLog())
	require.NoError(t, err)
	e, err := election.New(r, "leader", electionTTL, redlock.WithOwner(name))
	require.NoError(t, err)
	resign, ctx := make(chan struct{}), context.Background()
	go func() {
		for {
			if _, scanErr := fmt.Scanln(new(string)); scanErr != nil {
				os.Exit(0)
			}
			resign <- struct{}{}
		}
	}()
	for {
		term, err := e.Campaign(ctx)
		require.NoError(t, err)
		tick := time.NewTicker(5 * time.Millisecond)
		for at := time.Now(); e.IsLeader(); at = time.Now() {
			fmt.Println("leads", term.Fence(), at.UnixNano())
			select {
			case <-tick.C:
			case <-resign:
				err = term.Resign(ctx)
			}
		}
		why := term.Err()
		err = errors.Join(err, term.Resign(ctx))
		fmt.Printf("led %d %t %t %q\n", term.Fence(), why != nil && err == nil,
			errors.Is(why, redlock.ErrExpired) && errors.Is(err, redlock.ErrExpired), fmt.Sprintf("%v; %v", why, err))
	}
}

// A reign is what the process of a term has said.
type reign struct {
	name        string
	fence       int64
	first, last time.Time // instants at which it led
	over        bool      // it knows that it leads no more
	resigned    bool      // as it wanted
	expired     bool      // as it has found
	why         string
}

func (r reign) String() string {
	const clock = "15:04:05.000000"
	return fmt.Sprintf("%s (fence %d) from %s to %s: %s", r.name, r.fence, r.first.Format(clock), r.last.Format(clock), r.why)
}

// A sight is what an observer was told.
type sight struct {
	election.Leader
	unknown bool
}

// A constituency is the processes that stand, what they have said, and what an observer was told.
type constituency struct {
	processes map[string]*child.Process

	mu     sync.Mutex
	reigns []*reign // in the order of their fences
	sights []sight
}

func newConstituency(t *testing.T, c *testcluster.Cluster, names ...string) *constituency {
	t.Helper()
	all := &constituency{processes: map[string]*child.Process{}}
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.DirectAddr())
	}
	for _, name := range names {
		cmd := child.Self("-test.run=^TestCandidate$")
		cmd.Env = append(os.Environ(), candidateNodes+"="+strings.Join(addrs, " "), candidateName+"="+name)
		p, err := child.Start(cmd)
		require.NoError(t, err)
		all.processes[name] = p
		t.Cleanup(p.Kill)
		go func() {
			for line := range p.Lines {
				all.hear(name, line)
			}
		}()
	}
	return all
}

func (c *constituency) hear(name, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fence, nanos int64
	var resigned, expired bool
	var why string
	if n, _ := fmt.Sscanf(line, "leads %d %d", &fence, &nanos); n == 2 {
		at := time.Unix(0, nanos)
		i, found := slices.BinarySearchFunc(c.reigns, fence, func(r *reign, fence int64) int { return int(r.fence - fence) })
		if !found {
			c.reigns = slices.Insert(c.reigns, i, &reign{name: name, fence: fence, first: at})
		}
		c.reigns[i].last = at
	}
	if n, _ := fmt.Sscanf(line, "led %d %t %t %q", &fence, &resigned, &expired, &why); n == 4 {
		for _, r := range c.reigns {
			if r.fence == fence {
				r.over, r.resigned, r.expired, r.why = true, resigned, expired, why
			}
		}
	}
}

// of returns what is known of the term with this fence, and last the latest one.
func (c *constituency) of(fence int64) (r, last reign) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.reigns {
		if last = *one; last.fence == fence {
			r = last
		}
	}
	return r, last
}

// observe goes on until ctx ends.
func (c *constituency) observe(ctx context.Context, e *election.Election) {
	for leader, err := range e.Observe(ctx) {
		c.mu.Lock()
		if ctx.Err() == nil {
			c.sights = append(c.sights, sight{leader, err != nil})
		}
		c.mu.Unlock()
	}
}

// saw is what the observer was told last.
func (c *constituency) saw() (s sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sights) > 0 {
		s = c.sights[len(c.sights)-1]
	}
	return s
}

// follows waits until somebody else than in this term leads, and the observer knows, and returns that term.
func (c *constituency) follows(t *testing.T, r reign) (next reign) {
	t.Helper()
	await(t, patience, "somebody else leads", func() bool {
		_, next = c.of(0)
		return next.fence > r.fence && next.name != r.name && !next.over && c.saw().Owner == next.name
	})
	return next
}

// Candidates are killed, stopped and hung off their nodes: never do two lead by their own clocks.
func TestElectionOfProcesses(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	all := newConstituency(t, c, "a", "b", "c", "d")
	e, err := election.New(newPatient(t, serverNodes(c)), "leader", electionTTL)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go all.observe(ctx, e)
	first := all.follows(t, reign{})
	await(t, patience, "the others stand", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool {
			return admin(t, n, "ZCARD", stored.Keys{}.Line("leader")) != int64(3)
		})
	})

	require.NoError(t, all.processes[first.name].Say("resign"))
	second := all.follows(t, first)
	t.Logf("after a resignation the next one led in %v", second.first.Sub(first.last))
	await(t, patience, "it knows", func() bool { first, _ = all.of(first.fence); return first.over })
	require.True(t, first.resigned)

	await(t, patience, "all nodes have the lock, also where others came first", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool {
			return !strings.HasSuffix(fmt.Sprintf("%s", admin(t, n, "GET", "leader")), "="+second.name)
		})
	})
	require.NoError(t, c.First(2).Hang())
	time.Sleep(2 * electionTTL) // A minority hangs, which is no event for anybody.
	_, last := all.of(0)
	require.Equal(t, second.fence, last.fence)
	require.NoError(t, c.First(2).Resume())

	require.NoError(t, all.processes[second.name].Cmd.Process.Kill())
	killed := time.Now()
	third := all.follows(t, second)
	t.Logf("after a kill the next one led in %v, with a ttl of %v", third.first.Sub(killed), electionTTL)

	stalled := all.processes[third.name].Cmd.Process
	require.NoError(t, stalled.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	fourth := all.follows(t, third)
	t.Logf("after a stop the next one led in %v", fourth.first.Sub(stopped))
	require.NoError(t, stalled.Signal(syscall.SIGCONT))
	await(t, patience, "it knows", func() bool { third, _ = all.of(third.fence); return third.over })
	require.True(t, third.expired)

	require.NoError(t, c.First(3).Stop())
	await(t, patience, "it is over without a quorum, and the observer does not know who leads", func() bool {
		fourth, _ = all.of(fourth.fence)
		return fourth.over && all.saw().unknown
	})
	time.Sleep(electionTTL)
	require.NoError(t, c.First(3).Restart(false))
	all.follows(t, reign{fence: fourth.fence})
	cancel()
	all.requireInOrder(t)
}

// requireInOrder is that no two have led at the same time, and that the observer was told each change once.
func (c *constituency) requireInOrder(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	led := []string{c.reigns[0].name}
	for i, r := range c.reigns[1:] {
		require.True(t, c.reigns[i].last.Before(r.first), "%v", c.reigns)
		led = append(led, r.name)
	}
	terms, rest := map[string]bool{}, led
	for i, s := range c.sights {
		require.True(t, i == 0 || s != c.sights[i-1], "told twice: %v", c.sights)
		if s.Holder == "" || terms[s.Holder] && c.sights[i-1].unknown { // It may still lead when it is known again.
			continue
		}
		require.False(t, terms[s.Holder], "%v", c.sights)
		terms[s.Holder] = true
		at := slices.Index(rest, s.Owner)
		require.GreaterOrEqual(t, at, 0, "%s after %v", s.Owner, led)
		rest = rest[at+1:]
	}
	t.Logf("led: %v; seen: %v", led, c.sights)
}

// childNodes has this program be the child of the test below: the addresses of its nodes.
const childNodes = "STANDSTILL_NODES"

// TestChildOfStandstills is a process that takes a lock for each line that it reads, and writes what came of it.
func TestChildOfStandstills(t *testing.T) {
	addrs := os.Getenv(childNodes)
	if addrs == "" {
		t.Skip("it is the child of TestProcessThatStoodStillGetsItsLock")
	}
	var nodes []redlock.Node
	for _, addr := range strings.Fields(addrs) {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithoutLog())
	require.NoError(t, err)
	for {
		var resource string
		if _, err := fmt.Scanln(&resource); err != nil {
			return
		}
		l, err := r.TryLock(context.Background(), []string{resource}, time.Minute)
		if err == nil {
			_ = l.Unlock(context.Background())
			fmt.Println("locked,", r.Stats().Standstills)
		} else {
			fmt.Println(err)
		}
	}
}

// A process that is stopped while it asks, as one that gets little processor time is, finds the answers when it goes on.
func TestProcessThatStoodStillGetsItsLock(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	cmd := child.Self("-test.run=^TestChildOfStandstills$")
	cmd.Env = append(os.Environ(), childNodes+"="+strings.Join([]string{c.Nodes[0].Addr(), c.Nodes[1].Addr(), c.Nodes[2].Addr()}, " "))
	p, err := child.Start(cmd)
	require.NoError(t, err)
	defer p.Kill()
	ask := func(resource string) { require.NoError(t, p.Say(resource)) }
	answers := make(chan string, 1)
	go func() {
		defer close(answers)
		for {
			line, lineErr := p.Line()
			if lineErr != nil {
				return
			}
			answers <- line
		}
	}()
	ask("warm")
	<-answers

	const tries = 10
	var failed []string
	stopped := 0
	for _, n := range c.Nodes {
		n.Proxy().SetDelays(0, 0, 100*time.Millisecond, 100*time.Millisecond)
	}
	for i := range tries {
		resource := fmt.Sprint("r", i)
		ask(resource)
		said := ""
		await(t, patience, "all nodes have granted the lock", func() bool {
			select {
			case said = <-answers: // On a busy machine it has come and gone unseen.
				return true
			default:
			}
			granted := 0
			for _, n := range c.Nodes {
				if _, there, err := n.Get(resource); err == nil && there {
					granted++
				}
			}
			return granted == len(c.Nodes)
		})
		if said != "" {
			continue
		}
		stopped++
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(600 * time.Millisecond) // So long it stands still, beyond the node timeout.
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		if said = <-answers; !strings.HasPrefix(said, "locked, ") {
			require.Contains(t, said, "as this process stood still for")
			failed = append(failed, said)
		}
	}
	require.LessOrEqual(t, len(failed), stopped/2, "what a busy machine does not even let the child read: %v", failed)
}
