package servers

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A fenceRun is clients that take locks with fencing while somebody deletes keys.
type fenceRun struct {
	clients  []*redlock.Redlock
	seed     uint64
	began    time.Time
	acquired atomic.Int64

	mu     sync.Mutex
	actors uint64
	locks  map[string][]fencedTenure // by resource
	turns  map[string]time.Duration  // of locks with turns, by holder: when the first lock of the turn was asked for
}

// A fencedTenure is a lock's fence, and when it was asked for, got and given up, by the monotonic clock of this process.
type fencedTenure struct {
	asked, got, left time.Duration
	fence            int64
}

// newRand returns a source of random numbers for one goroutine.
func (s *fenceRun) newRand() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors++
	return rand.New(rand.NewPCG(s.seed, s.actors))
}

// run takes locks until there are so many in all. Clocks are set only between calls: a step is not what this is about,
// and would end the locks. A counter that is shared by locks on different sets is raised by either.
func (s *fenceRun) run(ctx context.Context, apart time.Duration, until int64) {
	var all sync.WaitGroup
	for i, r := range s.clients {
		testkit.WallOffset(r).Store(int64(time.Duration(2*i-7) * apart))
		for range 4 {
			own := s.newRand()
			all.Go(func() {
				for s.acquired.Load() < until && ctx.Err() == nil {
					s.acquire(ctx, r, own)
				}
			})
		}
	}
	all.Wait()
}

// acquire makes one attempt, or some, at a lock.
func (s *fenceRun) acquire(ctx context.Context, r *redlock.Redlock, rng *rand.Rand) {
	pair := []string{"ab", "cd", "ef", "gh"}[rng.IntN(4)]
	resources := [][]string{{pair[:1]}, {pair[1:]}, {pair[:1], pair[1:]}}[rng.IntN(3)]
	life := []time.Duration{50 * time.Millisecond, 2 * time.Second}[rng.IntN(2)]
	opts := []redlock.Option{redlock.WithRetryCount(rng.IntN(2)), redlock.WithRetryDelay(5 * time.Millisecond)}
	turns := rng.IntN(2) == 0
	if turns { // Of a few hot resources: somebody may steal the lock in the middle of one.
		resources = []string{[]string{"a", "c"}[rng.IntN(2)]}
		opts = append(opts, redlock.WithRetryCount(3), redlock.WithTurn(4*time.Millisecond))
	}
	asked := time.Since(s.began)
	l, err := r.Lock(ctx, resources, life, opts...)
	if err != nil {
		return
	}
	got := time.Since(s.began)
	s.acquired.Add(1)
	for range max(0, rng.IntN(6)-3) {
		_ = l.Extend(ctx, life) // Nodes that have lost the key may get it back.
	}
	unlock, left := life > time.Second || rng.IntN(4) == 0, l.Until().Sub(s.began) // The others expire, or are deleted.
	if unlock {
		left = time.Since(s.began)
	}
	s.mu.Lock()
	if first, passed := s.turns[l.Holder()]; passed && turns {
		asked = first // The nodes were asked for all locks of a turn at once; they have the same holder.
	}
	s.turns[l.Holder()] = asked
	for _, res := range resources {
		s.locks[res] = append(s.locks[res], fencedTenure{asked: asked, got: got, left: left, fence: l.Fence()})
	}
	s.mu.Unlock()
	if unlock {
		_ = l.Unlock(ctx)
	}
}

// raid deletes locks, never counters, until ctx ends: on a few nodes, so that grants get lost between the rounds of an
// attempt, or on most of them, which lets a second holder in.
func (s *fenceRun) raid(ctx context.Context, conns []redis.Conn) {
	rng := s.newRand()
	for ctx.Err() == nil {
		res := string(rune('a' + rng.IntN(8)))
		for _, i := range rng.Perm(len(conns))[:1+rng.IntN(len(conns))] {
			_, _ = conns[i].Do("DEL", res)
		}
		rest(ctx, between(rng, 0, 2*time.Millisecond))
	}
}

// Clients whose clocks are years apart, off or right take locks that somebody deletes meanwhile, so that there are several
// holders at once: their fences differ, and have the order of their locks.
func TestFencesUnderAnAdversary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long")
	}
	t.Parallel()
	goal := int64(20_000)
	if testcluster.RaceEnabled {
		goal = 2000
	}
	c := testcluster.RunServers(t, 5, testcluster.WithProxy())
	s := &fenceRun{seed: testkit.Seed(t), began: time.Now(), locks: map[string][]fencedTenure{}, turns: map[string]time.Duration{}}
	c.SetSeed(s.seed)
	for _, n := range c.Nodes { // Clients reach the nodes at different times.
		n.Proxy().SetDelay(0, 3*time.Millisecond)
	}
	for range 8 {
		s.clients = append(s.clients, newRedlock(t, c, redlock.WithFencing()))
	}
	ctx, calm := context.WithCancel(t.Context())
	var raiders sync.WaitGroup
	for range 4 {
		var conns []redis.Conn
		for _, n := range c.Nodes {
			conns = append(conns, adminConn(t, n))
		}
		raiders.Go(func() { s.raid(ctx, conns) })
	}
	for i, apart := range []time.Duration{365 * 24 * time.Hour, time.Second, 0} {
		s.run(ctx, apart, goal*int64(i+1)/3)
	}
	calm()
	raiders.Wait()
	var raised, passed, overlaps int64 // A run without these shows nothing.
	for _, r := range s.clients {
		raised, passed = raised+r.Stats().Raised, passed+r.Stats().Passed
	}
	for res, all := range s.locks {
		wrong, over := fenceFaults(all)
		overlaps += int64(over)
		assert.Empty(t, wrong, res)
	}
	t.Logf("%d locks; %d raises, %d overlaps, %d passed on", s.acquired.Load(), raised, overlaps, passed)
	require.Positive(t, raised)
	require.Positive(t, overlaps)
	require.Positive(t, passed)
}

// fenceFaults looks at all locks on one resource: wrong are fences that occur twice, and those that are larger than that of
// a lock that was asked for after their own was got. overlaps is how often a lock was got before an earlier one had been
// given up.
func fenceFaults(all []fencedTenure) (wrong []string, overlaps int) {
	slices.SortFunc(all, func(a, b fencedTenure) int { return cmp.Compare(a.got, b.got) })
	var left time.Duration
	for _, f := range all {
		if f.got < left {
			overlaps++
		}
		left = max(left, f.left)
	}
	slices.SortFunc(all, func(a, b fencedTenure) int { return cmp.Compare(a.fence, b.fence) })
	latest := all[0] // It was asked for last, of those with smaller fences.
	for i, f := range all[1:] {
		if f.fence == all[i].fence || f.got < latest.asked {
			wrong = append(wrong, fmt.Sprintf("%+v and %+v, %+v", f, all[i], latest))
		}
		if f.asked > latest.asked {
			latest = f
		}
	}
	return wrong, overlaps
}
