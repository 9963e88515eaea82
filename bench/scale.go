package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// crowdGoroutines is the number of goroutines that is compared with manyGoroutines.
const crowdGoroutines = 4096

// scale measures whether a lock costs more where there are many goroutines, or many locks
// that are held meanwhile.
func scale(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	var entrants []*entrant
	for _, kind := range []struct {
		name string
		opts []redlock.Option
	}{{libraries.Redlock.Name, nil}, {libraries.Fenced.Name, []redlock.Option{redlock.WithFencing()}}} {
		lib, e := libraries.OpenRedlock(cluster.Addrs(), kind.opts...)
		if e != nil {
			return e
		}
		defer closeRedlock(lib)
		entrants = append(entrants, scaleEntrants(s, kind.name, lib, cluster.Nodes)...)
	}
	r, err := takeTurns(entrants, s.rounds, 1)
	if err != nil {
		return err
	}
	turns := turnsTable(fmt.Sprintf("Lock+unlock with %d nodes: medians of %d rounds of %v", s.nodes, s.rounds, s.time), nil, measurement{nil, r})
	reached := newAims()
	for _, name := range r.names {
		if base, ok := r.bases[name]; ok {
			reached.atMost(1.3, fmt.Sprintf("client CPU, %s / %s", name, base), r.ratios(name, base, turn.clientCPU))
		}
	}
	return errors.Join(out.table(turns), out.table(r.multiplesTable()), reached.report(out))
}

// scaleEntrants are those of one Redlock. The first one is what the others are compared with.
func scaleEntrants(s settings, name string, r *redlock.Redlock, nodes []*testcluster.Node) []*entrant {
	c := ours(name, r, s.ttl)
	entrants := []*entrant{
		{name: fmt.Sprintf("%s, %d goroutines", name, manyGoroutines), work: s.turns(manyGoroutines)},
		{name: fmt.Sprintf("%s, %d goroutines", name, crowdGoroutines), work: s.turns(crowdGoroutines)},
	}
	for _, kept := range []bool{false, true} {
		if kept && name != libraries.Redlock.Name {
			continue // To take them takes longer than to measure.
		}
		h := &heldLocks{r: r, name: name, number: s.held, kept: kept}
		state := "held"
		if kept {
			state = "kept by KeepAlive"
		}
		entrants = append(entrants, &entrant{
			name: fmt.Sprintf("%s, %d locks %s", name, s.held, state), work: s.turns(manyGoroutines),
			before: h.take, after: h.release, warm: true,
		})
	}
	for i, e := range entrants {
		e.client, e.nodes = c, nodes
		if i > 0 {
			e.base = entrants[0].name
		}
	}
	return entrants
}

// heldLocks are many locks, which are held only while they matter: they are objects that
// the garbage collector has to look at in everybody's turn.
type heldLocks struct {
	r      *redlock.Redlock
	name   string
	number int
	kept   bool
	locks  []*redlock.Lock
}

// heldTTL is so long that none is extended while it is held.
const heldTTL = time.Hour

func (h *heldLocks) take() error {
	h.locks = make([]*redlock.Lock, h.number)
	return h.all(func(ctx context.Context, i int) (err error) {
		if h.locks[i], err = h.r.TryLock(ctx, []string{"held:" + h.name + ":" + strconv.Itoa(i)}, heldTTL); err == nil && h.kept {
			h.locks[i].KeepAlive(ctx)
		}
		return err
	})
}

func (h *heldLocks) release() error {
	defer func() { h.locks = nil }()
	return h.all(func(ctx context.Context, i int) error {
		if h.locks[i] == nil {
			return nil
		}
		return h.locks[i].Unlock(ctx)
	})
}

// all calls f for each lock, by several goroutines at once.
func (h *heldLocks) all(f func(ctx context.Context, i int) error) error {
	failed := make([]error, manyGoroutines)
	var wg sync.WaitGroup
	for g := range manyGoroutines {
		wg.Go(func() {
			for i := g; i < h.number && failed[g] == nil; i += manyGoroutines {
				failed[g] = f(context.Background(), i)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
