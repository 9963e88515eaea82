//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// childNodes has this program be a child of a test below: the addresses of its nodes.
const childNodes = "CHILD_NODES"

// startChild starts this program once more, to run one of the tests below with the nodes of a cluster.
func startChild(t *testing.T, test string, c *testcluster.Cluster, env ...string) *child.Process {
	t.Helper()
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	cmd := child.Self("-test.run=" + test)
	cmd.Env = append(append(os.Environ(), env...), childNodes+"="+strings.Join(addrs, " "))
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// childRedlock is the Redlock of such a child; the test is skipped if it is none.
func childRedlock(t *testing.T) *redlock.Redlock {
	t.Helper()
	addrs := os.Getenv(childNodes)
	if addrs == "" {
		t.Skip("it is a child of another test")
	}
	var nodes []redlock.Node
	for _, addr := range strings.Fields(addrs) {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithoutLog())
	require.NoError(t, err)
	return r
}

const (
	candidateName = "ELECTION_NAME" // of a candidate
	electionTTL   = 3 * time.Second
)

// TestCandidate is a process that stands for leader again and again, until its input ends. While it leads, it says so every
// few milliseconds, with an instant at which it led. A line has it resign.
func TestCandidate(t *testing.T) {
	r, name := childRedlock(t), os.Getenv(candidateName)
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
			fmt.Println(term.Fence(), at.UnixNano())
			select {
			case <-tick.C:
			case <-resign:
				err = term.Resign(ctx)
			}
		}
		how := "other"
		switch why, resigned := term.Err(), term.Resign(ctx); {
		case errors.Is(why, redlock.ErrExpired) && errors.Is(resigned, redlock.ErrExpired):
			how = "expired"
		case why != nil && err == nil && resigned == nil:
			how = "resigned"
		}
		fmt.Println(term.Fence(), how)
	}
}

// A reign is what the process of a term has said.
type reign struct {
	name        string
	fence       int64
	first, last time.Time // instants at which it led
	how         string    // it has ended, if its process knows that
}

// A constituency is the processes that stand, and what they have said.
type constituency struct {
	processes map[string]*child.Process

	mu     sync.Mutex
	reigns []reign // in the order of their fences
}

func newConstituency(t *testing.T, c *testcluster.Cluster, names ...string) *constituency {
	t.Helper()
	all := &constituency{processes: map[string]*child.Process{}}
	for _, name := range names {
		p := startChild(t, "^TestCandidate$", c, candidateName+"="+name)
		all.processes[name] = p
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
	var fence int64
	var what string
	if n, _ := fmt.Sscan(line, &fence, &what); n < 2 {
		return
	}
	i, found := slices.BinarySearchFunc(c.reigns, fence, func(r reign, fence int64) int { return int(r.fence - fence) })
	nanos, err := strconv.ParseInt(what, 10, 64)
	switch at := time.Unix(0, nanos); {
	case err == nil && !found:
		c.reigns = slices.Insert(c.reigns, i, reign{name: name, fence: fence, first: at, last: at})
	case err == nil:
		c.reigns[i].last = at
	case found: // Or it was over before its process could say that it led.
		c.reigns[i].how = what
	}
}

// await waits for a term, the latest of those that are so.
func (c *constituency) await(t *testing.T, what string, is func(r reign) bool) (r reign) {
	t.Helper()
	await(t, patience, what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, one := range slices.Backward(c.reigns) {
			if r = one; is(one) {
				return true
			}
		}
		return false
	})
	return r
}

// follows waits until somebody else than in this term leads, and returns that term.
func (c *constituency) follows(t *testing.T, r reign) (next reign) {
	t.Helper()
	return c.await(t, "somebody else leads", func(o reign) bool { return o.fence > r.fence && o.name != r.name && o.how == "" })
}

// knows waits until the process of this term knows that it is over, and returns how it has ended.
func (c *constituency) knows(t *testing.T, r reign) string {
	t.Helper()
	return c.await(t, "it knows", func(o reign) bool { return o.fence == r.fence && o.how != "" }).how
}

// Candidates are killed, stopped and hung off their nodes: never do two lead by their own clocks.
func TestElectionOfProcesses(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	all := newConstituency(t, c, "a", "b", "c", "d")
	first := all.follows(t, reign{})
	await(t, patience, "the others stand", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool {
			return admin(t, n, "ZCARD", stored.Keys{}.Line("leader")) != int64(3)
		})
	})
	require.NoError(t, all.processes[first.name].Say("resign"))
	second := all.follows(t, first)
	require.Equal(t, "resigned", all.knows(t, first))

	await(t, patience, "all nodes have the lock, also where others came first", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool {
			return !strings.HasSuffix(fmt.Sprintf("%s", admin(t, n, "GET", "leader")), "="+second.name)
		})
	})
	require.NoError(t, c.First(2).Hang())
	time.Sleep(2 * electionTTL) // A minority hangs, which is no event for anybody.
	require.Equal(t, second.fence, all.follows(t, first).fence)
	require.NoError(t, c.First(2).Resume())

	require.NoError(t, all.processes[second.name].Cmd.Process.Kill())
	third := all.follows(t, second)
	stalled := all.processes[third.name].Cmd.Process
	require.NoError(t, stalled.Signal(syscall.SIGSTOP))
	fourth := all.follows(t, third)
	require.NoError(t, stalled.Signal(syscall.SIGCONT))
	require.Equal(t, "expired", all.knows(t, third))

	require.NoError(t, c.First(3).Stop()) // There is no quorum.
	all.knows(t, fourth)
	time.Sleep(electionTTL)
	require.NoError(t, c.First(3).Restart(false))
	all.follows(t, reign{fence: fourth.fence})
	all.mu.Lock()
	defer all.mu.Unlock()
	for i, r := range all.reigns[1:] {
		before := all.reigns[i]
		require.True(t, before.last.Before(r.first), "%s led until %v, %s from %v on", before.name, before.last, r.name, r.first)
	}
}

// TestChildOfStandstills is a process that takes a lock for each line that it reads, and writes what came of it.
func TestChildOfStandstills(t *testing.T) {
	r := childRedlock(t)
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
	p := startChild(t, "^TestChildOfStandstills$", c)
	ask := func(resource string) { require.NoError(t, p.Say(resource)) }
	ask("warm")
	<-p.Lines

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
			case said = <-p.Lines: // On a busy machine it has come and gone unseen.
				return true
			default:
			}
			return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool { return len(keys(t, n)) == 0 })
		})
		if said != "" {
			continue
		}
		stopped++
		require.NoError(t, p.Cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(600 * time.Millisecond) // So long it stands still, beyond the node timeout.
		require.NoError(t, p.Cmd.Process.Signal(syscall.SIGCONT))
		if said = <-p.Lines; !strings.HasPrefix(said, "locked, ") {
			require.Contains(t, said, "as this process stood still for")
			failed = append(failed, said)
		}
	}
	require.LessOrEqual(t, len(failed), stopped/2, "what a busy machine does not even let the child read: %v", failed)
}
