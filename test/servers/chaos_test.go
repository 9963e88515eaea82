package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// torment breaks, delays and mutes the connections to a node until ctx ends.
// What is left of it then are late bytes.
func torment(ctx context.Context, n *testcluster.Node) {
	p := n.Proxy()
	const calm = 2 * time.Millisecond
	p.SetDelay(0, calm)
	p.LateBytes(10*time.Millisecond, time.Second)
	defer p.SetDelay(0, 0)
	for rest(ctx, 100*time.Millisecond, 1800*time.Millisecond) {
		switch rand.IntN(5) {
		case 0:
			p.Reset()
		case 1:
			p.Kill()
		case 2: // Requests are carried out, but nobody hears of it.
			p.DropReplies(true)
			rest(ctx, 5*time.Millisecond, 120*time.Millisecond)
			// The connection must not survive it: TCP may end, but never delivers
			// what comes after bytes it has lost.
			p.Refuse(true)
			p.Reset()
			p.DropReplies(false)
			p.Refuse(false)
		case 3: // Many requests are on their way when it breaks, and arrive late.
			p.SetDelay(0, 60*time.Millisecond)
			rest(ctx, 20*time.Millisecond, 100*time.Millisecond)
			p.Reset()
			p.SetDelay(0, calm)
		case 4:
			p.Refuse(true)
			p.Reset()
			rest(ctx, 10*time.Millisecond, 150*time.Millisecond)
			p.Refuse(false)
		}
	}
}

// tormentAll torments all nodes until ctx ends; the result waits for that.
func tormentAll(ctx context.Context, c *testcluster.Cluster) (wait func()) {
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		wg.Go(func() { torment(ctx, n) })
	}
	return wg.Wait
}

// figures sums up what some clients have seen.
func figures(clients ...*redlock.Redlock) (text string, unknown, cleaned int64) {
	var acquired, taken, noQuorum, splits, connects int64
	for _, r := range clients {
		s := r.Stats()
		acquired += s.Acquired
		taken += s.Taken
		noQuorum += s.NoQuorum
		splits += s.Splits
		for _, n := range s.Nodes {
			unknown += n.Unknown
			cleaned += n.Cleaned
			connects += n.Connects
		}
	}
	return fmt.Sprintf("%d locks, %d taken, %d without quorum, %d split votes, %d connections, %d unknown outcomes, %d locks cleaned up",
		acquired, taken, noQuorum, splits, connects, unknown, cleaned), unknown, cleaned
}

// The ttl outlives the test by far, so whatever is gone at the end was removed
// by its owner.
func TestChaosLeavesNothing(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	clients := []*redlock.Redlock{newRedlock(t, c), newRedlock(t, c)}
	ctx := eventful(t, scenario(12*time.Second, 2*time.Second), func() bool {
		_, unknown, cleaned := figures(clients...)
		return unknown > 0 && cleaned > 0 && clients[0].Stats().Acquired > 0 && clients[1].Stats().Acquired > 0
	})
	calm := tormentAll(ctx, c)
	var workers sync.WaitGroup
	wrong := make(chan error, 8)
	for i := range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := lockAndUnlock(ctx, clients[i%len(clients)]); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	workers.Wait()
	calm()
	close(wrong)
	require.NoError(t, <-wrong)

	took := awaitNoKeys(t, c, 30*time.Second)
	text, unknown, cleaned := figures(clients...)
	t.Logf("%s; no key left %v after the end", text, took)
	require.Positive(t, unknown, "a run without unknown outcomes shows nothing")
	require.Positive(t, cleaned, "and they were cleaned up")
	for _, r := range clients {
		require.Positive(t, r.Stats().Acquired)
		await(t, 30*time.Second, "all is settled", func() bool {
			s := r.Stats()
			rest := s.Held
			for _, n := range s.Nodes {
				rest += n.Backlog + n.PendingReleases
			}
			return rest == 0
		})
	}
	// A late lock request that came after the clean-up would show only now. It is released again, long
	// before its ttl of a minute has ended.
	rest(t.Context(), time.Second, time.Second)
	awaitNoKeys(t, c, 30*time.Second)
}

// lockAndUnlock is one go of a worker. The error is a result that faults of the
// network cannot explain.
func lockAndUnlock(ctx context.Context, r *redlock.Redlock) error {
	resources := []string{fmt.Sprint("r", rand.IntN(5))}
	if rand.IntN(3) == 0 {
		resources = append(resources, fmt.Sprint("r", rand.IntN(5)))
	}
	attempt := r.TryLock
	switch rand.IntN(3) {
	case 0:
		attempt = r.Lock
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	l, err := attempt(ctx, resources, time.Minute, redlock.WithRetryCount(2), redlock.WithRetryDelay(20*time.Millisecond))
	switch {
	case err != nil && !errors.Is(err, redlock.ErrTaken) && !errors.Is(err, redlock.ErrNoQuorum) && ctx.Err() == nil:
		return fmt.Errorf("lock: %w", err)
	case err != nil:
		return nil
	}
	rest(ctx, 0, 10*time.Millisecond)
	// The lock is nowhere near its end, so nobody else may have removed it.
	if err = l.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return fmt.Errorf("unlock %s: %w", strings.Join(resources, ","), err)
	}
	return nil
}

// A tenure is the time in which a holder relied on its lock: from the return of
// the call that took it to the release or to Until, by the monotonic clock.
type tenure struct {
	holder   string
	from, to time.Time
}

// A ledger has the tenures of each resource.
type ledger struct {
	mu      sync.Mutex
	tenures map[string][]tenure
}

func (b *ledger) add(resource string, h tenure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenures[resource] = append(b.tenures[resource], h)
}

// requireNoOverlap checks that nobody got a resource in another one's time.
func (b *ledger) requireNoOverlap(t *testing.T) {
	t.Helper()
	for resource, all := range b.tenures {
		slices.SortFunc(all, func(x, y tenure) int { return cmp.Compare(x.from.Sub(y.from), 0) })
		for i := 1; i < len(all); i++ {
			// Sorted, and none before overlaps the next: so it is enough to look at
			// neighbours.
			before, after := all[i-1], all[i]
			require.False(t, after.from.Before(before.to), "%s: %s began %v before the end of %s",
				resource, after.holder, before.to.Sub(after.from), before.holder)
		}
	}
}

// Holders extend, release, or leave their locks to expire, while connections
// break and bytes arrive late; each client has connections of its own.
func TestChaosNeverLetsInASecondHolder(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	var clients []*redlock.Redlock
	for range 3 {
		clients = append(clients, newRedlock(t, c))
	}
	const resources, contenders = 4, 3
	var mu sync.Mutex
	ends := make(map[string]int)
	extended := func() (n int64) {
		for _, r := range clients {
			n += r.Stats().Extended
		}
		return n
	}
	ctx := eventful(t, scenario(12*time.Second, 2*time.Second), func() bool {
		mu.Lock()
		defer mu.Unlock()
		_, unknown, _ := figures(clients...)
		return unknown > 0 && extended() > 0 && ends["released"]+ends["left to expire"] > resources
	})
	calm := tormentAll(ctx, c)
	book := &ledger{tenures: make(map[string][]tenure)}
	var workers sync.WaitGroup
	wrong := make(chan error, resources*contenders)
	for i := range resources * contenders {
		workers.Go(func() {
			for ctx.Err() == nil {
				end, err := serveATenure(ctx, clients[i%len(clients)], fmt.Sprint("r", i/contenders), book)
				if err != nil {
					wrong <- err
					return
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	calm()
	close(wrong)
	require.NoError(t, <-wrong)
	book.requireNoOverlap(t)

	text, unknown, _ := figures(clients...)
	t.Logf("%s, %d extensions; tenures %v", text, extended(), ends)
	require.Positive(t, unknown, "a run without unknown outcomes shows nothing")
	require.Positive(t, extended())
	require.Greater(t, ends["released"]+ends["left to expire"], resources)
	awaitNoKeys(t, c, 30*time.Second)
}

// serveATenure tries to get the resource, holds it for some extensions, and
// says how that ended. The error is a result that faults of the network cannot
// explain.
func serveATenure(ctx context.Context, r *redlock.Redlock, resource string, book *ledger) (string, error) {
	life := 500*time.Millisecond + rand.N(1500*time.Millisecond)
	l, err := r.Lock(ctx, []string{resource}, life, redlock.WithRetryCount(3), redlock.WithRetryDelay(15*time.Millisecond))
	if err != nil {
		rest(ctx, 0, 20*time.Millisecond)
		return "not begun", nil
	}
	h := tenure{holder: l.Token(), from: time.Now()}
	for range rand.IntN(5) {
		// A tenth of the holders are late: with or after the end.
		pause := life / 4
		if rand.IntN(10) == 0 {
			pause = time.Until(l.Until()) + rand.N(4*time.Millisecond) - 2*time.Millisecond
		}
		rest(ctx, max(0, pause-10*time.Millisecond), max(0, pause))
		if err = l.Extend(ctx, life); errors.Is(err, redlock.ErrExpired) {
			break
		} else if errors.Is(err, redlock.ErrLost) {
			return "", fmt.Errorf("a lock was lost before its end: %w", err)
		}
	}
	end := "left to expire"
	h.to = l.Until()
	if err == nil && rand.IntN(4) > 0 {
		end = "released"
		if now := time.Now(); now.Before(h.to) {
			h.to = now
		}
		if err = l.Unlock(ctx); errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrExpired) {
			return "", fmt.Errorf("a lock was lost before its release: %w", err)
		}
	}
	book.add(resource, h)
	return end, nil
}

// lateness measures until its result is called how late this process's timers
// fire: what the machine adds to every time that a test measures.
func lateness() (worst func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan time.Duration)
	go func() {
		const step = 5 * time.Millisecond
		var most time.Duration
		for start := time.Now(); rest(ctx, step, step); start = time.Now() {
			most = max(most, time.Since(start)-step)
		}
		done <- most
	}()
	return func() time.Duration {
		cancel()
		return <-done
	}
}

// requireNoQuorumSoon checks that attempts fail within 500 ms each, however
// silent the nodes 0 to 2 of 5 are, and blame them.
func requireNoQuorumSoon(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, how string) {
	t.Helper()
	worst := lateness()
	var longest time.Duration
	attempts := 0
	// So long that silent connections are given up and others are tried.
	for end := time.Now().Add(scenario(3*time.Second, 1500*time.Millisecond)); time.Now().Before(end); attempts++ {
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		longest = max(longest, time.Since(start))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		votes := votesOf(t, err)
		require.Len(t, votes, 5)
		for i, v := range votes {
			assert.Equal(t, c.Nodes[i].Name(), v.Node)
			assert.Contains(t, err.Error(), v.Node)
			if i < 3 {
				require.Error(t, v.Err)
			}
		}
		rest(t.Context(), 0, 50*time.Millisecond)
	}
	late := worst()
	t.Logf("3 of 5 %s: %d attempts took at most %v (the machine's timers were up to %v late)", how, attempts, longest, late)
	assert.LessOrEqual(t, longest, 500*time.Millisecond+2*late)
}

// requireHealed checks that all five nodes serve again, soon, and have no
// key left of all that failed meanwhile.
func requireHealed(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, how string) {
	t.Helper()
	const promise, slack = 3 * time.Second, 3 * time.Second
	took := awaitAll(t, c, r, promise+slack)
	clean := awaitNoKeys(t, c, 30*time.Second)
	t.Logf("3 of 5 %s: locks on all nodes %v after the end, no key left %v later", how, took, clean)
}

func TestMajorityThatIsFrozenIsNoQuorumAndHeals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no signal to freeze a process")
	}
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	r := newRedlock(t, c)
	awaitAll(t, c, r, 30*time.Second)
	for _, n := range c.Nodes[:3] {
		require.NoError(t, n.Hang())
	}
	requireNoQuorumSoon(t, c, r, "frozen")
	for _, n := range c.Nodes[:3] {
		require.NoError(t, n.Resume())
	}
	requireHealed(t, c, r, "frozen")
}

func TestMajorityThatIsDeadIsNoQuorumAndHeals(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	r := newRedlock(t, c)
	awaitAll(t, c, r, 30*time.Second)
	for _, n := range c.Nodes[:3] {
		require.NoError(t, n.Stop())
	}
	requireNoQuorumSoon(t, c, r, "dead")
	for _, n := range c.Nodes[:3] {
		require.NoError(t, n.Restart(false))
	}
	requireHealed(t, c, r, "dead")
}

// A minority dies and comes back empty while others lock and unlock.
func TestMinorityThatRestartsLetsLocksGoOn(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
	awaitAll(t, c, r, 30*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var cycles atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			l, err := r.TryLock(context.WithoutCancel(ctx), []string{"busy"}, time.Minute)
			var no *redlock.QuorumError
			if errors.As(err, &no) && slices.ContainsFunc(no.Votes, func(v redlock.Vote) bool { return errors.Is(v.Err, redlock.ErrOverloaded) }) {
				continue // A third node is far behind, and so not asked: the machine is that busy.
			}
			if err == nil {
				err = l.Unlock(ctx)
			}
			if err != nil {
				ended <- err
				return
			}
			cycles.Add(1)
		}
		ended <- nil
	}()
	// Every state lasts for some cycles.
	proceed := func() {
		goal := cycles.Load() + 50
		await(t, 30*time.Second, "locks go on", func() bool {
			select {
			case err := <-ended:
				require.NoError(t, errors.Join(errors.New("locks have ended"), err))
			default:
			}
			return cycles.Load() >= goal
		})
	}
	for range 3 {
		proceed()
		for _, n := range c.Nodes[1:3] {
			require.NoError(t, n.Stop())
		}
		proceed()
		for _, n := range c.Nodes[1:3] {
			require.NoError(t, n.Restart(false))
		}
		took := await(t, 30*time.Second, "all nodes are connected", func() bool { return allUp(r) })
		t.Logf("2 of 5 restarted: connected after %v", took)
	}
	proceed()
	cancel()
	require.NoError(t, <-ended)
	awaitAll(t, c, r, 30*time.Second)
	awaitNoKeys(t, c, 30*time.Second)
	t.Logf("%d cycles, all without error", cycles.Load())
}
