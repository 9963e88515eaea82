package compat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	mu       sync.Mutex
	inside   map[string]string // By key, who.
	turns    map[string]int    // By who, how many sections it has been in.
	overlaps []string
}

func (r *referee) enter(who string, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns[who]++
	for _, k := range keys {
		if other, ok := r.inside[k]; ok {
			r.overlaps = append(r.overlaps, fmt.Sprintf("%s has %s while %s has it", who, k, other))
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

// contender is a client with its name in reports.
type contender struct {
	kind
	client client
}

// contenders connects every kind of client to the same servers.
func contenders(t *testing.T, c *testcluster.Cluster) []contender {
	t.Helper()
	var all []contender
	for _, k := range kinds {
		all = append(all, contender{k, k.connect(t, c)})
	}
	return all
}

// contend has workers of all contenders take sections by turns, each as many as it is told,
// and returns when all have had them.
func contend(t *testing.T, all []contender, r *referee, keys []string, turns int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for _, c := range all {
		for range workersOfAKind {
			workers.Go(func() {
				for n := 0; n < turns && ctx.Err() == nil; n++ {
					if err := turn(ctx, c, r, keys); err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", c.name, err)
						cancel()
					}
				}
			})
		}
	}
	workers.Wait()
}

// turn locks one of the keys, or all of them if the client can, and is in their sections. Every other time it extends.
func turn(ctx context.Context, c contender, r *referee, keys []string) error {
	if n := rand.N(len(keys) + 1); n < len(keys) || c.oneKey {
		keys = keys[n%len(keys):][:1]
	}
	h, err := c.client.lock(ctx, keys)
	if err != nil {
		return err
	}
	r.enter(c.name, keys)
	time.Sleep(section)
	if rand.N(2) == 0 {
		err = h.extend(ctx)
		time.Sleep(section)
	}
	r.leave(keys)
	return errors.Join(err, h.unlock(context.WithoutCancel(ctx)))
}

func TestNoTwoLibrariesHoldAKeyAtOnce(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	turns := testkit.Rounds(400, 40)
	r := &referee{inside: map[string]string{}, turns: map[string]int{}}
	contend(t, all, r, []string{"a", "b"}, turns)
	assert.Empty(t, r.overlaps)
	for _, k := range kinds {
		assert.Equal(t, turns*workersOfAKind, r.turns[k.name], k.name)
	}
}
