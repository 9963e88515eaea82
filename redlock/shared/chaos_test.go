//go:build unix

package shared_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/child"
	"github.com/seed6c881748/redlock/test/testkit"
)

// chaosTTL is short, so that those who wait for the dead do not wait for long.
const chaosTTL = time.Second

// An order is what a process is to do.
type order struct {
	Addrs   []string
	Readers int
	Work    time.Duration // a hold takes up to that
}

// A stretch is a hold of a process, in ns of the wall clock, by its own clocks.
type stretch struct{ from, to int64 }

// Readers and writers in processes that are killed and suspended, over real servers that hang, and restart without their
// data: no writer has the name beside anybody, by the clocks of both. SHARED_WRITES says how many exclusive locks it
// takes; the shared ones are about a hundred times as many. For a million shared ones:
//
//	SHARED_WRITES=10000 go test -timeout 2h -run TestChaos -v ./redlock/shared
func TestChaos(t *testing.T) {
	writes := testkit.EnvNumber(t, "SHARED_WRITES", 20)
	c := testcluster.RunServers(t, 5)
	nodes := make([]redlock.Node, 5)
	o := order{Readers: 32, Work: 2 * time.Millisecond}
	for i, n := range c.Nodes {
		nodes[i] = redlock.NewNode(n.Addr())
		o.Addrs = append(o.Addrs, n.Addr())
	}
	r := testkit.NewPatient(t, nodes, redlock.WithQuarantine(chaosTTL))
	require.NoError(t, r.Admit(t.Context(), o.Addrs...))

	h := &history{t: t, order: o}
	began := time.Now()
	for range 4 {
		h.spawn()
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { h.harm(c, stop) })
	for h.writes.Load() < int64(writes) {
		require.Less(t, time.Since(began), time.Duration(writes)*200*time.Millisecond+testkit.Patience, "locks go on")
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	faults.Wait()
	for _, p := range h.processes {
		p.Kill()
	}
	h.reading.Wait()
	t.Logf("%d shared and %d exclusive locks, and %d that were over at once, in %v; %d processes killed, %d suspended; "+
		"%d servers hung, %d restarted empty", len(h.shared), len(h.exclusive), h.late, time.Since(began).Round(time.Second),
		h.killed, h.suspended, h.hung, h.emptied)
	h.check()
}

// A history is what the processes have had.
type history struct {
	t         *testing.T
	order     order
	processes []*child.Process
	reading   sync.WaitGroup
	writes    atomic.Int64

	killed, suspended, hung, emptied int

	mu                sync.Mutex
	shared, exclusive []stretch
	late              int
}

// spawn starts a process, and notes what it says.
func (h *history) spawn() {
	cmd := child.Self("-test.run=^TestChildOfChaos$")
	cmd.Env = append(os.Environ(), "SHARED_CHILD=1")
	p, err := child.Start(cmd)
	if !assert.NoError(h.t, err) {
		return
	}
	assert.NoError(h.t, p.Say(h.order))
	h.processes = append(h.processes, p)
	h.reading.Go(func() {
		for line := range p.Lines {
			var kind string
			var s stretch
			if n, _ := fmt.Sscan(line, &kind, &s.from, &s.to); n < 3 || (kind != "R" && kind != "W") {
				continue // Half a line, or what package testing says.
			}
			h.mu.Lock()
			switch {
			case s.to <= s.from: // The process was suspended as its call returned, until there was nothing left.
				h.late++
			case kind == "R":
				h.shared = append(h.shared, s)
			default:
				h.exclusive = append(h.exclusive, s)
				h.writes.Add(1)
			}
			h.mu.Unlock()
		}
	})
}

// harm does something to a process or a server, again and again, but never to a majority of the servers.
func (h *history) harm(c *testcluster.Cluster, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(rand.N(300 * time.Millisecond)):
		}
		i := rand.N(len(h.processes))
		n := c.Nodes[rand.N(2)] // Of the same two: those that abstain after a loss are no majority either.
		switch rand.N(8) {
		case 0:
			h.processes[i].Kill()
			h.processes = slices.Delete(h.processes, i, i+1)
			h.spawn()
			h.killed++
		case 1, 2, 3:
			p := h.processes[i].Cmd.Process
			stopped := p.Signal(syscall.SIGSTOP)
			time.Sleep(rand.N(2 * chaosTTL))
			assert.NoError(h.t, errors.Join(stopped, p.Signal(syscall.SIGCONT)))
			h.suspended++
		case 4, 5, 6:
			assert.NoError(h.t, n.Hang())
			time.Sleep(rand.N(chaosTTL))
			assert.NoError(h.t, n.Resume())
			h.hung++
		case 7:
			assert.NoError(h.t, n.Restart(false))
			h.emptied++
		}
	}
}

// check looks whether anybody had the name beside a writer.
func (h *history) check() {
	all := slices.Concat(h.shared, h.exclusive)
	byStart := func(a, b stretch) int { return int(a.from - b.from) }
	slices.SortFunc(all, byStart)
	slices.SortFunc(h.exclusive, byStart)
	require.NotEmpty(h.t, h.exclusive)
	require.NotEmpty(h.t, h.shared)
	next := 0
	var longest stretch // of those that began before: it ends last
	for _, s := range all {
		if next < len(h.exclusive) && s == h.exclusive[next] {
			next++
			require.LessOrEqual(h.t, longest.to, s.from, "a writer came beside somebody: %v, %v", longest, s)
			longest = s
			continue
		}
		if next > 0 {
			require.LessOrEqual(h.t, h.exclusive[next-1].to, s.from, "a reader came beside a writer: %v, %v", h.exclusive[next-1], s)
		}
		if s.to > longest.to {
			longest = s
		}
	}
}

// TestChildOfChaos is a process of TestChaos.
func TestChildOfChaos(t *testing.T) {
	if os.Getenv("SHARED_CHILD") == "" {
		t.Skip("a process of TestChaos")
	}
	var o order
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(line), &o))
	var nodes []redlock.Node
	for _, addr := range o.Addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithQuarantine(chaosTTL), redlock.WithoutLog())
	require.NoError(t, err)
	m, err := shared.New(r, "name", chaosTTL)
	require.NoError(t, err)
	var mu sync.Mutex
	var out strings.Builder
	had := func(kind string, from time.Time, until func() time.Time, holds func() error) {
		time.Sleep(rand.N(o.Work))
		to := time.Now()
		if holds() != nil || until().Before(to) {
			to = until() // Or it was lost before, of which it was told.
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&out, kind, from.UnixNano(), to.UnixNano())
		if out.Len() > 1024 || kind == "W" {
			_, _ = os.Stdout.WriteString(out.String())
			out.Reset()
		}
	}
	ctx := context.Background()
	for range o.Readers {
		go func() {
			for {
				if rd, err := m.RLock(ctx); err == nil {
					had("R", time.Now(), rd.Until, rd.Err)
					_ = rd.Unlock(ctx)
				}
			}
		}()
	}
	for {
		time.Sleep(rand.N(20 * time.Millisecond))
		if w, err := m.Lock(ctx); err == nil {
			had("W", time.Now(), w.Until, w.Err)
			_ = w.Unlock(ctx)
		}
	}
}
