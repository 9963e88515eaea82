package servers

import (
	"cmp"
	"context"
	"errors"
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
	nodes    []*testcluster.Node
	clients  []*redlock.Redlock
	seed     uint64
	began    time.Time
	acquired atomic.Int64

	refused       atomic.Int64 // rounds that were refused though nodes had granted the lock
	raisesRefused atomic.Int64 // nodes that did not count for a fence that was raised

	mu     sync.Mutex
	actors uint64
	locks  map[string][]fencedTenure // by resource
	asked  map[string]time.Duration  // of locks with turns, by holder: when the first lock of the turn was
}

// fenceSets are the resources that locks are taken on. A counter that is shared by
// locks on different sets is raised by either.
var fenceSets = func() (sets [][]string) {
	for _, pair := range []string{"ab", "cd", "ef", "gh"} {
		a, b := pair[:1], pair[1:]
		sets = append(sets, []string{a}, []string{a, b}, []string{b})
	}
	return sets
}()

// single marks the context of a TryLock, for the hook.
type single struct{}

// hook counts what must have occurred. A node that holds another token names it; one
// that refuses to raise its counter, or has said another one than is counted, does
// not. Nor does one that has only put a waiter in line, but TryLock does not wait.
func (s *fenceRun) hook(ctx context.Context, e redlock.Event) {
	if e.Op != redlock.OpLock || e.Kind != redlock.EventDecided || !errors.Is(e.Err, redlock.ErrTaken) {
		return
	}
	yes, nameless := 0, 0
	for _, v := range e.Votes {
		switch {
		case v.Err == nil:
			yes++
		case errors.Is(v.Err, redlock.ErrTaken) && v.Holder == "":
			nameless++
		}
	}
	if yes > 0 {
		s.refused.Add(1)
	}
	if ctx.Value(single{}) != nil {
		s.raisesRefused.Add(int64(nameless))
	}
}

// newRand returns a source of random numbers for one goroutine.
func (s *fenceRun) newRand() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors++
	return rand.New(rand.NewPCG(s.seed, s.actors))
}

// A clockPhase sets how far apart the clients' wall clocks are, and so what they
// propose.
type clockPhase struct {
	name   string
	offset func(rng *rand.Rand, client int) time.Duration
}

const year = 365 * 24 * time.Hour

var clockPhases = []clockPhase{
	{"years apart", func(rng *rand.Rand, client int) time.Duration {
		return time.Duration(2*client-7)*year + between(rng, 0, time.Hour)
	}},
	{"off", func(rng *rand.Rand, _ int) time.Duration {
		return magnitude(rng, time.Millisecond, 4*time.Second) * time.Duration(2*rng.IntN(2)-1)
	}},
	{"equal", func(*rand.Rand, int) time.Duration { return 0 }},
}

// run takes locks until there are so many in all. Clocks are set only between calls:
// a step is not what this is about, and would end the locks.
func (s *fenceRun) run(ctx context.Context, phase clockPhase, until int64) error {
	const workers = 4
	var all sync.WaitGroup
	wrong := make(chan error, workers*len(s.clients))
	rng := s.newRand()
	for i, r := range s.clients {
		testkit.WallOffset(r).Store(int64(phase.offset(rng, i)))
		for range workers {
			own := s.newRand()
			all.Go(func() {
				for s.acquired.Load() < until {
					if err := s.acquire(ctx, r, own); err != nil {
						wrong <- err
						return
					}
				}
			})
		}
	}
	all.Wait()
	close(wrong)
	return <-wrong
}

// acquire makes one attempt, or some, at a lock. The error is a result that deleted
// keys cannot explain.
func (s *fenceRun) acquire(ctx context.Context, r *redlock.Redlock, rng *rand.Rand) error {
	resources := fenceSets[rng.IntN(len(fenceSets))]
	life := []time.Duration{50 * time.Millisecond, 2 * time.Second}[rng.IntN(2)]
	asked := time.Since(s.began)
	var l *redlock.Lock
	var err error
	switch rng.IntN(8) {
	case 0, 1, 2, 3: // In turns, of a few hot resources: somebody may steal the lock in the middle of one.
		resources = fenceSets[3*rng.IntN(2)]
		l, err = r.Lock(ctx, resources, life, redlock.WithTurn(4*time.Millisecond), redlock.WithRetryCount(3), redlock.WithRetryDelay(5*time.Millisecond))
		if err == nil {
			asked = s.askedWith(l.Holder(), asked)
		}
	case 4:
		l, err = r.Lock(ctx, resources, life, redlock.WithRetryCount(1), redlock.WithRetryDelay(5*time.Millisecond))
	default:
		l, err = r.TryLock(context.WithValue(ctx, single{}, true), resources, life)
	}
	got := time.Since(s.began)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
	case errors.Is(err, redlock.ErrTaken), errors.Is(err, redlock.ErrNoQuorum):
		return nil
	default:
		return err
	}
	s.acquired.Add(1)
	fence := l.Fence()
	for range max(0, rng.IntN(6)-3) {
		_ = l.Extend(ctx, life) // Nodes that have lost the key may get it back.
	}
	unlock := life > time.Second || rng.IntN(4) == 0 // The others are left to expire, or to the adversary.
	left := l.Until().Sub(s.began)
	if unlock {
		left = time.Since(s.began)
	}
	s.add(resources, fencedTenure{asked: asked, got: got, left: left, fence: fence})
	if unlock {
		_ = l.Unlock(ctx)
	}
	if l.Fence() != fence {
		return fmt.Errorf("the fence of %v was %d and became %d", resources, fence, l.Fence())
	}
	return nil
}

// askedWith is when a lock was asked for: when the first lock of its turn was, which has the same holder on the nodes.
func (s *fenceRun) askedWith(holder string, asked time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, passed := s.asked[holder]; passed {
		return first
	}
	s.asked[holder] = asked
	return asked
}

func (s *fenceRun) add(resources []string, f fencedTenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, res := range resources {
		s.locks[res] = append(s.locks[res], f)
	}
}

// raid deletes locks, never counters, until ctx ends: on a few nodes, so that grants
// get lost between the rounds of an attempt, or on most of them, which lets a second
// holder in. All the resources are being taken or held most of the time, so that many
// blows hit.
func (s *fenceRun) raid(ctx context.Context, conns []redis.Conn) error {
	rng := s.newRand()
	for {
		res := string(rune('a' + rng.IntN(8)))
		for _, i := range rng.Perm(len(conns))[:1+rng.IntN(len(conns))] {
			if _, err := conns[i].Do("DEL", res); err != nil {
				return err
			}
		}
		t := time.NewTimer(between(rng, 0, 2*time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// startRaids starts the adversaries; the result ends them.
func (s *fenceRun) startRaids(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	wrong := make(chan error, 4)
	for range cap(wrong) {
		conns := make([]redis.Conn, len(s.nodes))
		for i, n := range s.nodes {
			conns[i] = adminConn(t, n)
		}
		all.Go(func() { wrong <- s.raid(ctx, conns) })
	}
	return func() {
		cancel()
		all.Wait()
		close(wrong)
		for err := range wrong {
			require.NoError(t, err)
		}
	}
}

// newFenceRun returns a run with clients that reach the nodes at different times.
func newFenceRun(t *testing.T, seed uint64) *fenceRun {
	t.Helper()
	c := testcluster.RunServers(t, 5, testcluster.WithProxy())
	c.SetSeed(seed)
	s := &fenceRun{nodes: c.Nodes, seed: seed, began: time.Now(), locks: make(map[string][]fencedTenure), asked: make(map[string]time.Duration)}
	for _, n := range c.Nodes {
		n.Proxy().SetDelay(0, 3*time.Millisecond)
	}
	for range 8 {
		s.clients = append(s.clients, newRedlock(t, c, redlock.WithFencing(), redlock.WithHook(s.hook)))
	}
	return s
}

// requireFences checks the fences of all locks, and returns how many locks were got
// before an earlier one had been given up.
func (s *fenceRun) requireFences(t *testing.T) (overlaps int) {
	t.Helper()
	for res, all := range s.locks {
		duplicates, misordered, n := fenceFaults(all)
		overlaps += n
		assert.Empty(t, duplicates[:min(len(duplicates), 5)], "%s: %d of %d fences occur again", res, len(duplicates), len(all))
		assert.Empty(t, misordered[:min(len(misordered), 5)], "%s: %d of %d fences are misordered", res, len(misordered), len(all))
	}
	return overlaps
}

// Clients whose clocks are right, off or wrong by years take locks that somebody
// deletes meanwhile, so that there are several holders at once: their fences differ,
// and have the order of their locks. FENCE_ACQUIRES is the number of locks, FENCE_SEED
// where the random numbers begin.
func TestFencesUnderAnAdversary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long")
	}
	t.Parallel()
	goal := uint64(20_000)
	if testcluster.RaceEnabled {
		goal = 2000
	}
	goal = envNumber(t, "FENCE_ACQUIRES", goal)
	seed := envNumber(t, "FENCE_SEED", rand.Uint64N(1e9))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("FENCE_SEED=%d", seed)
		}
	})
	s := newFenceRun(t, seed)
	ctx := t.Context()
	calm := s.startRaids(ctx, t)
	const turns = 2
	phases := uint64(turns * len(clockPhases))
	for i := range phases {
		phase := clockPhases[i%uint64(len(clockPhases))]
		require.NoError(t, s.run(ctx, phase, int64(goal*(i+1)/phases)), phase.name)
	}
	calm()
	overlaps := s.requireFences(t)

	var raised, passed int64
	for _, r := range s.clients {
		raised, passed = raised+r.Stats().Raised, passed+r.Stats().Passed
	}
	t.Logf("%d locks in %v; %d raises, %d overlaps, %d passed on", s.acquired.Load(), time.Since(s.began).Round(time.Millisecond), raised, overlaps, passed)
	require.GreaterOrEqual(t, s.acquired.Load(), int64(goal))
	require.Positive(t, raised, "a run without raises shows nothing")
	require.Positive(t, s.raisesRefused.Load(), "nor does one without refused raises,")
	require.Positive(t, s.refused.Load(), "without refusals in spite of grants,")
	require.Positive(t, overlaps, "without holders at the same time,")
	require.Positive(t, passed, "or without locks that were passed on")
}

// A fencedTenure is a lock's fence, and when it was asked for, got and given up, by
// the monotonic clock of this process.
type fencedTenure struct {
	asked, got, left time.Duration
	fence            int64
}

func (f fencedTenure) String() string {
	return fmt.Sprintf("%d (asked for %v, got %v)", f.fence, f.asked, f.got)
}

// fenceFaults looks at all locks on one resource: two with one fence are duplicates; a fence is misordered if it is
// larger than that of a lock that was asked for after its own was got. The texts are examples. overlaps is how often a
// lock was got before an earlier one had been given up.
func fenceFaults(all []fencedTenure) (duplicates, misordered []string, overlaps int) {
	all = slices.Clone(all)
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
		if f.fence == all[i].fence {
			duplicates = append(duplicates, fmt.Sprint(f, " = ", all[i]))
		} else if f.got < latest.asked {
			misordered = append(misordered, fmt.Sprint(f, " before ", latest))
		}
		if f.asked > latest.asked {
			latest = f
		}
	}
	return duplicates, misordered, overlaps
}

func TestFenceFaultsAreSeen(t *testing.T) {
	good := []fencedTenure{{0, 10, 12, 3}, {5, 11, 20, 2}, {12, 13, 14, 4}, {13, 20, 30, 9}}
	duplicates, misordered, overlaps := fenceFaults(good)
	assert.Empty(t, duplicates)
	assert.Empty(t, misordered, "the first two were asked for before either was got")
	assert.Equal(t, 2, overlaps)
	duplicates, misordered, _ = fenceFaults(append(good, fencedTenure{21, 22, 23, 5}))
	assert.Empty(t, duplicates)
	assert.Len(t, misordered, 1)
	duplicates, misordered, _ = fenceFaults(append(good, fencedTenure{19, 22, 23, 9}))
	assert.Len(t, duplicates, 1)
	assert.Empty(t, misordered)
}
