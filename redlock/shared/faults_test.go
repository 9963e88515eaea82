package shared_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/testkit"
)

// What readers share is extended as long as one is in, whoever has taken it; and when no extension succeeds, the contexts
// of all of them end at Until, those of readers that have unlocked with that.
func TestContextsEndInTime(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c)
		first, gone := rlock(t, m), rlock(t, m)
		before := gone.Context(t.Context())
		unlock(t, gone)
		<-before.Done()
		require.ErrorIs(t, context.Cause(before), context.Canceled)
		second := rlock(t, m)
		unlock(t, first)
		time.Sleep(10 * ttl)
		require.NoError(t, second.Err(), "it is extended")
		third := rlock(t, m)
		one, other := second.Context(t.Context()), third.Context(t.Context())
		require.NoError(t, c.First(2).Stop())
		until := second.Until()
		assert.Equal(t, until, third.Until())
		for _, within := range []context.Context{one, other} {
			<-within.Done()
			require.ErrorIs(t, context.Cause(within), redlock.ErrExpired)
		}
		assert.Equal(t, until, time.Now())
		for _, rd := range []*shared.Reader{second, third} {
			require.ErrorIs(t, rd.Err(), redlock.ErrExpired)
			require.ErrorIs(t, rd.Unlock(t.Context()), redlock.ErrExpired)
			within := rd.Context(t.Context())
			require.Error(t, within.Err(), "it has ended from the start")
		}

		_, err := m.TryRLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, c.First(2).Restart(false))
		time.Sleep(ttl)
		unlock(t, rlock(t, m))
		unlock(t, lock(t, m))
	})
}

// WithMaxHold and WithStopTime end what readers share: those that come after that have a new permit.
func TestLimits(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c, redlock.WithMaxHold(time.Minute))
		first := rlock(t, m)
		within := first.Context(t.Context())
		time.Sleep(59 * time.Second)
		second := rlock(t, m)
		assert.Len(t, slots(t, c), 1)
		<-within.Done()
		require.ErrorIs(t, context.Cause(within), redlock.ErrMaxHold)
		require.NoError(t, first.Err())
		third := rlock(t, m)
		assert.Len(t, slots(t, c), 2)
		unlock(t, first, second, third)

		held := rlock(t, process(t, c))
		w := testkit.Start(t.Context(), m.Lock)
		time.Sleep(5 * time.Minute) // The turnstile's lock has no max hold.
		_, err := m.TryRLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrTaken)
		unlock(t, held)
		unlock(t, w.Got(t))
	})
}

// A minority of nodes that hangs holds nobody up. What one node alone has of the turnstile, as a dead writer may leave
// there, is no writer; what a quorum has is one.
func TestALookTakesAQuorum(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c)
		require.NoError(t, c.Nodes[2].Hang())
		began := time.Now()
		unlock(t, rlock(t, m))
		unlock(t, lock(t, m))
		assert.Zero(t, time.Since(began))
		for i, want := range []error{redlock.ErrNoQuorum, nil, redlock.ErrTaken} {
			time.Sleep(time.Second)
			require.NoError(t, c.Nodes[i/2].Set("name#t", "left", time.Hour))
			rd, err := m.TryRLock(t.Context())
			require.ErrorIs(t, err, want)
			if i == 1 {
				unlock(t, rd)
			}
			require.NoError(t, c.Nodes[2].Resume()) // From then on there is a quorum that has it, or has not.
		}
	})
}

// A span is a hold, by the clocks of its process.
type span struct {
	from, to time.Time
	writes   bool
}

// A fleet is processes that read and write, and what they have had.
type fleet struct {
	c   *testcluster.Cluster
	had []span
	mu  sync.Mutex
	all sync.WaitGroup
}

// begin begins a process, and returns what kills it: what it holds stays until its ttl is over.
func (f *fleet) begin(t *testing.T) (r *redlock.Redlock, kill func()) {
	t.Helper()
	r = testkit.NewRedlock(t, f.c, redlock.WithQuarantine(ttl))
	m := newMutex(t, r)
	ctx, end := context.WithCancel(t.Context())
	hold := func(writes bool, lock held) {
		s := span{from: time.Now(), writes: writes}
		time.Sleep(rand.N(time.Second))
		if s.to = time.Now(); lock.Until().Before(s.to) {
			s.to = lock.Until()
		}
		isHeld := lock.Err() == nil
		f.mu.Lock()
		f.had = append(f.had, s)
		f.mu.Unlock()
		if ctx.Err() == nil && lock.Unlock(ctx) == nil {
			assert.True(t, isHeld)
		}
	}
	for i := range 4 {
		f.all.Go(func() {
			for ctx.Err() == nil {
				if i > 0 {
					if rd, err := m.RLock(ctx); err == nil {
						hold(false, rd)
					}
					continue
				}
				time.Sleep(rand.N(4 * time.Second))
				if w, err := m.Lock(ctx); err == nil {
					hold(true, w)
				}
			}
		})
	}
	return r, func() {
		end()
		_ = r.Close(ctx)
	}
}

// Processes are killed, and have slept for some time by their clocks; nodes hang, and restart without their data. No
// writer has the name beside anybody.
func TestNobodyBesideAWriter(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, testkit.NewRedlock(t, c, redlock.WithQuarantine(ttl)).Admit(t.Context(), testkit.Names(c)...))
		f := &fleet{c: c}
		var rs [3]*redlock.Redlock
		var kill [3]func()
		for p := range rs {
			rs[p], kill[p] = f.begin(t)
		}
		for range testkit.Rounds(300, 8) {
			time.Sleep(rand.N(ttl))
			p, n := rand.N(len(rs)), c.Nodes[0] // Always the same: those that abstain are no majority either.
			switch rand.N(4) {
			case 0:
				kill[p]()
				rs[p], kill[p] = f.begin(t)
			case 1:
				testkit.WallOffset(rs[p]).Add(int64(rand.N(2 * ttl)))
			case 2:
				require.NoError(t, n.Hang())
				time.Sleep(rand.N(ttl))
				require.NoError(t, n.Resume())
			case 3:
				require.NoError(t, n.Restart(false))
			}
		}
		for _, end := range kill {
			end()
		}
		f.all.Wait()
		slices.SortFunc(f.had, func(a, b span) int { return a.from.Compare(b.from) })
		var written, last time.Time // the latest ends of a writer, and of anybody, that began before
		var writers int
		for _, s := range f.had {
			require.False(t, s.from.Before(written), "beside a writer, at %v", s.from)
			if s.writes {
				require.False(t, s.from.Before(last), "a writer beside somebody, at %v", s.from)
				written, writers = s.to, writers+1
			}
			if s.to.After(last) {
				last = s.to
			}
		}
		t.Logf("%d writers, %d readers", writers, len(f.had)-writers)
		assert.Greater(t, writers, 5)
		assert.Greater(t, len(f.had), 40)
	})
}
