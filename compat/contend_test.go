package compat

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	nodes = 3

	// Nobody holds a lock for so long, so none ends before it is released.
	longTTL = 2 * time.Minute

	// A section takes some time, as others could not get in its way else.
	section = 2 * time.Millisecond

	workersOfAKind = 2
)

// A referee knows who is in a section that its key protects. It is asked by a client that has
// the lock, when it has got it and before it gives it back. So two in one section
// at a time have had the lock at the same time.
type referee struct {
	t      *testing.T
	mu     sync.Mutex
	inside map[string]string // By key, who.
}

func (r *referee) enter(who string, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		if other, ok := r.inside[k]; ok {
			r.t.Errorf("%s has %s while %s has it", who, k, other)
		}
		r.inside[k] = who
	}
}

func (r *referee) leave(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		delete(r.inside, k)
	}
}

// turn locks one of the keys, or all of them if the client can, and is in their sections. Every other time it extends.
func (r *referee) turn(ctx context.Context, who kind, c client) error {
	keys := []string{"a", "b"}
	if n := rand.N(len(keys) + 1); n < len(keys) || who.oneKey {
		keys = keys[n%len(keys):][:1]
	}
	h, err := c.lock(ctx, keys)
	if err != nil {
		return err
	}
	r.enter(who.name, keys)
	time.Sleep(section)
	if rand.N(2) == 0 {
		err = h.extend(ctx)
		time.Sleep(section)
	}
	r.leave(keys)
	return errors.Join(err, h.unlock(context.WithoutCancel(ctx)))
}

// All kinds of clients take sections by turns, each worker as many as it is told.
func TestNoTwoLibrariesHoldAKeyAtOnce(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, nodes)
	clients := make([]client, len(kinds))
	for i, k := range kinds {
		clients[i] = k.connect(t, c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &referee{t: t, inside: map[string]string{}}
	var workers sync.WaitGroup
	for i, k := range kinds {
		for range workersOfAKind {
			workers.Go(func() {
				for range testkit.Rounds(400, 40) {
					if err := r.turn(ctx, k, clients[i]); err != nil {
						t.Errorf("%s: %v", k.name, err)
						cancel() // The others fail by that, too.
						return
					}
				}
			})
		}
	}
	workers.Wait()
}
