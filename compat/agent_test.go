package compat

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/child"
)

// agent is a process that runs a node-redlock, see node/agent.js.
type agent struct {
	mu      sync.Mutex // Guards the rest, and orders what is said to the process.
	p       *child.Process
	last    int
	waiting map[int]chan answer
	ended   error
}

type request struct {
	ID   int      `json:"id"`
	Op   string   `json:"op"`
	Keys []string `json:"keys,omitempty"`
	Lock int      `json:"lock,omitempty"` // The ID of the request that has acquired it.
	TTL  int64    `json:"ttl,omitempty"`  // In milliseconds.
}

type answer struct {
	ID    int    `json:"id"`
	Error string `json:"error"`
}

// newAgent starts a process that ends with the test.
func newAgent(version string) func(t *testing.T, c *testcluster.Cluster) client {
	return func(t *testing.T, c *testcluster.Cluster) client {
		t.Helper()
		node.Require(t)
		cmd := exec.Command("node", append([]string{"agent.js", version}, c.Addrs()...)...)
		cmd.Dir = node.Folder()
		p, err := child.Start(cmd)
		require.NoError(t, err)
		a := &agent{p: p, waiting: map[int]chan answer{}}
		var reading sync.WaitGroup
		reading.Go(a.read)
		t.Cleanup(func() {
			p.Hang() // It ends with its input.
			reading.Wait()
			require.NoError(t, p.Wait(), "node-redlock %s", version)
		})
		return a
	}
}

// read hands the answers on until the process ends.
func (a *agent) read() {
	for line := range a.p.Lines {
		var ans answer
		if err := json.Unmarshal([]byte(line), &ans); err != nil {
			break
		}
		a.mu.Lock()
		waiter := a.waiting[ans.ID]
		delete(a.waiting, ans.ID)
		a.mu.Unlock()
		if waiter != nil { // Else its caller has given up.
			waiter <- ans
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = errors.New("the node process has ended")
	for id, waiter := range a.waiting {
		waiter <- answer{ID: id, Error: a.ended.Error()}
	}
	clear(a.waiting)
}

// ask sends a request and returns its ID when it was answered.
func (a *agent) ask(ctx context.Context, req request) (int, error) {
	waiter, id, err := a.send(req)
	if err != nil {
		return 0, err
	}
	select {
	case ans := <-waiter:
		if ans.Error != "" {
			return 0, errors.New(ans.Error)
		}
		return id, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (a *agent) send(req request) (chan answer, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return nil, 0, a.ended
	}
	a.last++
	req.ID = a.last
	waiter := make(chan answer, 1)
	a.waiting[req.ID] = waiter
	return waiter, req.ID, a.p.Say(req)
}

func (a *agent) lock(ctx context.Context, keys []string) (held, error) {
	id, err := a.ask(ctx, request{Op: "lock", Keys: keys, TTL: longTTL.Milliseconds()})
	return agentHeld{a, id}, err
}

type agentHeld struct {
	a  *agent
	id int
}

func (h agentHeld) extend(ctx context.Context) error {
	_, err := h.a.ask(ctx, request{Op: "extend", Lock: h.id, TTL: longTTL.Milliseconds()})
	return err
}

func (h agentHeld) unlock(ctx context.Context) error {
	_, err := h.a.ask(ctx, request{Op: "unlock", Lock: h.id})
	return err
}
