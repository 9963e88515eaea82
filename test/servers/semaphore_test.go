package servers

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/child"
	"github.com/seed6c881748/redlock/test/testkit"
)

// permitsVariable has the addresses of the nodes for a process that uses permits, and ends when its
// stdin does.
const permitsVariable = "REDLOCK_TEST_PERMITS"

// TestMain is also that process.
func TestMain(m *testing.M) {
	if addrs := os.Getenv(permitsVariable); addrs != "" {
		if err := usePermits(strings.Split(addrs, " ")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	permits    = 3
	permitTime = 2 * time.Second // the ttl
)

// usePermits has some callers use permits. They tell of each when it was got and how it would end, and when
// it is released.
func usePermits(addrs []string) error {
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(patient))
	if err != nil {
		return err
	}
	s, err := semaphore.New(r, "jobs", permits, permitTime)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				p, err := s.Acquire(ctx)
				if err != nil {
					return
				}
				fmt.Println("got", p.Holder(), p.Slot, time.Now().UnixNano(), p.Until().UnixNano())
				rest(ctx, 5*time.Millisecond, 30*time.Millisecond)
				fmt.Println("end", p.Holder(), p.Slot, time.Now().UnixNano(), 0)
				_ = p.Unlock(ctx)
			}
		})
	}
	wg.Wait()
	return r.Close(context.Background())
}

// A permitUse is a permit that one of the processes had.
type permitUse struct {
	process, slot int
	from, to      int64 // ns
	ended         bool  // it was released
}

// A permitUser is such a process.
type permitUser struct {
	*child.Process
	uses map[string]*permitUse // by holder
}

func startPermitUser(t *testing.T, c *testcluster.Cluster) *permitUser {
	t.Helper()
	cmd := child.Self()
	cmd.Env = append(os.Environ(), permitsVariable+"="+strings.Join(c.Addrs(), " "))
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return &permitUser{p, map[string]*permitUse{}}
}

// read reads what the process tells, until done says so or it has ended.
func (u *permitUser) read(t *testing.T, process int, done func() bool) {
	t.Helper()
	for !done() {
		line, err := u.Line()
		if err != nil {
			return
		}
		var what, holder string
		var slot int
		var at, until int64
		_, err = fmt.Sscan(line, &what, &holder, &slot, &at, &until)
		assert.NoError(t, err, line)
		if what == "got" {
			u.uses[holder] = &permitUse{process, slot, at, until, false}
		} else {
			u.uses[holder].to, u.uses[holder].ended = at, true
		}
	}
}

// holds reports whether the process has a permit, as far as it has told.
func (u *permitUser) holds() bool {
	for _, use := range u.uses {
		if !use.ended {
			return true
		}
	}
	return false
}

// Three processes share three permits. One is killed while it has one: that slot is used again when its ttl
// is over, and the others go on meanwhile. No slot is ever used twice at a time, and nothing is left.
func TestSemaphoreOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	users := []*permitUser{startPermitUser(t, c), startPermitUser(t, c), startPermitUser(t, c)}
	never := func() bool { return false }
	var wg sync.WaitGroup
	for i, u := range users[1:] {
		wg.Go(func() { u.read(t, i+1, never) })
	}
	victim := users[0]
	victim.read(t, 0, func() bool { return len(victim.uses) > 10 && victim.holds() })
	require.NoError(t, victim.Cmd.Process.Kill())
	victim.read(t, 0, never)                                      // What it had told before.
	time.Sleep(permitTime + scenario(2*time.Second, time.Second)) // The scenario's length; nothing is awaited.
	for _, u := range users[1:] {
		u.Hang()
	}
	wg.Wait()
	for _, u := range users[1:] {
		require.NoError(t, u.Wait())
	}
	checkUses(t, users)
	await(t, 30*time.Second, "no node has a key", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool { return len(testkit.Keys(t, n)) > 0 })
	})
}

func checkUses(t *testing.T, users []*permitUser) {
	t.Helper()
	var all []*permitUse
	for i, u := range users {
		assert.Greater(t, len(u.uses), 10, "of process %d", i)
		for _, use := range u.uses {
			all = append(all, use)
		}
	}
	slices.SortFunc(all, func(a, b *permitUse) int { return int(a.from - b.from) })
	var last [permits]*permitUse
	for _, use := range all {
		before := last[use.slot]
		if before != nil {
			assert.GreaterOrEqual(t, use.from, before.to, "slot %d: process %d, and %d", use.slot, before.process, use.process)
		}
		if before != nil && !before.ended {
			assert.Less(t, time.Duration(use.from-before.to), 10*time.Second, "after the end of the process that was killed")
		}
		last[use.slot] = use
	}
	for slot, use := range last {
		require.NotNil(t, use, "slot %d is used", slot)
		assert.True(t, use.ended, "slot %d is used again", slot)
	}
}
