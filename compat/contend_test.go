package compat

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

const (
	nodes = 3

	// Nobody holds a lock for so long, so none ends before it is released.
	longTTL = 2 * time.Minute

	// A section takes some time, as others could not get in its way else.
	section = 2 * time.Millisecond

	workersOfAKind = 2
)

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
// and returns when all have had them or ctx has ended.
func contend(ctx context.Context, t *testing.T, all []contender, r *referee, keys []string, turns int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
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

// turn locks one of the keys, or all of them if the client can, and is in their sections.
func turn(ctx context.Context, c contender, r *referee, keys []string) error {
	if n := rand.N(len(keys) + 1); n < len(keys) || c.oneKey {
		keys = keys[n%len(keys):][:1]
	}
	h, err := c.client.lock(ctx, keys, longTTL, true)
	if err != nil {
		return err
	}
	r.enter(c.name, keys)
	time.Sleep(section)
	r.leave(keys)
	return h.unlock(context.WithoutCancel(ctx))
}

func TestNoTwoLibrariesHoldAKeyAtOnce(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	turns := 400
	if testing.Short() {
		turns = 40
	}
	r := newReferee()
	contend(t.Context(), t, all, r, []string{"a", "b"}, turns)
	assert.Empty(t, r.overlapped())
	for _, k := range kinds {
		assert.Equal(t, turns*workersOfAKind, r.turns[k.name], k.name)
	}
	assert.Greater(t, r.handOns, turns, "the keys went from one to another")
	t.Logf("%d turns of each of %d kinds, %d from one kind to another", turns*workersOfAKind, len(kinds), r.handOns)
}

// broken is a client that does its part in another way than its referee is told.
type broken struct {
	client
	locks func(ctx context.Context, c client, keys []string, ttl time.Duration, wait bool) (held, error)
}

func (b broken) lock(ctx context.Context, keys []string, ttl time.Duration, wait bool) (held, error) {
	return b.locks(ctx, b.client, keys, ttl, wait)
}

// otherKeys locks other keys than those that it should.
func otherKeys(ctx context.Context, c client, keys []string, ttl time.Duration, wait bool) (held, error) {
	other := make([]string, len(keys))
	for i, k := range keys {
		other[i] = "other:" + k
	}
	return c.lock(ctx, other, ttl, wait)
}

// noLock goes on without a lock.
func noLock(context.Context, client, []string, time.Duration, bool) (held, error) {
	return nothing{}, nil
}

type nothing struct{}

func (nothing) extend(context.Context, time.Duration) error { return nil }
func (nothing) unlock(context.Context) error                { return nil }

// earlyUnlock lets go of a lock as soon as it has it.
func earlyUnlock(ctx context.Context, c client, keys []string, ttl time.Duration, wait bool) (held, error) {
	h, err := c.lock(ctx, keys, ttl, wait)
	if err == nil {
		err = h.unlock(ctx)
	}
	return nothing{}, err
}

// The test above is worth nothing if it does not see a client that excludes nobody.
func TestAClientThatExcludesNobodyIsSeen(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	for i, k := range kinds {
		for name, locks := range map[string]func(context.Context, client, []string, time.Duration, bool) (held, error){
			"other keys": otherKeys, "no lock": noLock, "early unlock": earlyUnlock,
		} {
			t.Run(k.name+" "+name, func(t *testing.T) {
				some := append([]contender(nil), all...)
				some[i].client = broken{all[i].client, locks}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				r := newReferee()
				seen := make(chan struct{})
				go func() {
					defer close(seen)
					for len(r.overlapped()) == 0 && ctx.Err() == nil {
						time.Sleep(section)
					}
					cancel()
				}()
				contend(ctx, t, some, r, []string{strings.ReplaceAll(t.Name(), " ", "-")}, 1_000_000)
				<-seen
				require.NotEmpty(t, r.overlapped())
				require.Contains(t, r.overlapped()[0], k.name)
			})
		}
	}
}
