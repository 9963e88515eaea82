//go:build unix

package servers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/child"
)

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
