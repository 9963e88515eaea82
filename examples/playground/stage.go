package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	examples "github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// A stage is five nodes, four clients and a register, from one start to the next.
type stage struct {
	*examples.Stage

	p       *playground
	ctx     context.Context //nolint:containedctx // It ends with the stage.
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	nodes   []*node
	clients []*client

	quarantine bool // the clients' option; it is the same from the start to the end

	// The register stands for what the lock protects. It refuses fences that are smaller than one that it has seen.
	guard  redlock.Guard
	writes int
	wrote  string // who wrote last

	stopAuto context.CancelFunc
}

var clientNames = []string{"A", "B", "C", "D"}

func newStage(p *playground, quarantine bool) (*stage, error) {
	shared, err := examples.Open(io.Discard)
	if err != nil {
		return nil, err
	}
	st := &stage{Stage: shared, p: p, quarantine: quarantine}
	st.ctx, st.cancel = context.WithCancel(p.ctx)
	for i, server := range st.Nodes {
		st.nodes = append(st.nodes, &node{st: st, name: string(rune('1' + i)), server: server})
	}
	err = examples.Try(func() {
		for _, name := range clientNames {
			st.clients = append(st.clients, newClient(st, name))
		}
		examples.Must(st.meet())
	})
	if err != nil {
		st.close()
		return nil, err
	}
	st.wg.Go(func() {
		for sleep(st.ctx, lookEvery) {
			st.look()
		}
	})
	return st, nil
}

// meet has the clients connect, so that the first lock on the page is not slower than the others. New nodes would be in
// quarantine, as nobody knows what they may have forgotten.
func (st *stage) meet() error {
	if st.quarantine {
		names := make([]string, len(st.nodes))
		for i, n := range st.nodes {
			names[i] = n.server.Name()
		}
		if err := st.clients[0].r.Admit(st.ctx, names...); err != nil {
			return err
		}
	}
	for _, c := range st.clients {
		st.wg.Go(func() { _, _ = c.r.Inspect(st.ctx, resource) })
	}
	return nil
}

// close ends everything of the stage, whatever state it is in.
func (st *stage) close() {
	st.cancel()
	var closing sync.WaitGroup
	for _, c := range st.clients {
		closing.Go(c.close)
	}
	closing.Wait()
	st.wg.Wait()
	_ = st.Close(st.ctx) // It ends all the same.
}

func sleep(ctx context.Context, d time.Duration) bool { return examples.Sleep(ctx, d) == nil }

// look compares what nodes and clients say with what is known of them, and records it.
func (st *stage) look() {
	abstains := st.abstaining()
	st.p.mu.Lock()
	defer st.p.mu.Unlock()
	now := time.Now()
	st.readKeys()
	for i, n := range st.nodes {
		if abstains[i] && n.abstains.IsZero() {
			n.abstains = now.Add(st.p.ttl + quarantineMargin)
		} else if !abstains[i] {
			n.abstains = time.Time{}
		}
	}
	for _, c := range st.clients {
		c.check(now)
	}
	st.record()
}

// readKeys learns what the nodes store just now, past all faults, also while they are down. The caller has p.mu.
func (st *stage) readKeys() {
	now := time.Now()
	for _, n := range st.nodes {
		all, err := n.server.Keys()
		if err != nil {
			continue // The stage ends.
		}
		_, n.holder, _ = strings.Cut(all[resource].Value, " owner=")
		n.expires = now.Add(all[resource].TTL)
	}
}

// abstaining says which nodes are in quarantine. A client knows what it has heard last, so that one that has not asked for
// a while may not know that it is over.
func (st *stage) abstaining() (all [5]bool) {
	if !st.quarantine {
		return all
	}
	var votes [5]bool
	for _, c := range st.clients {
		for i, s := range c.r.Stats().Nodes {
			all[i] = all[i] || s.Abstains != nil
			votes[i] = votes[i] || s.Up && s.Abstains == nil
		}
	}
	for i := range all {
		all[i] = all[i] && !votes[i]
	}
	return all
}

// quarantineMargin is what a quarantine lasts beyond the longest ttl.
const quarantineMargin = time.Second

// holders are the clients whose locks have not ended: two of them are what must not be. The caller has p.mu.
func (st *stage) holders() (all []*client) {
	for _, c := range st.clients {
		if c.lock != nil && c.lock.Err() == nil {
			all = append(all, c)
		}
	}
	return all
}
