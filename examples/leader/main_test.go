package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestLeaderKeepsLeading(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		e, err := open(t.Context(), s)
		require.NoError(t, err)
		first := <-e.terms
		time.Sleep(10 * ttl)
		select {
		case cause := <-first.ended:
			t.Errorf("the term has ended: %v", cause)
		case second := <-e.terms:
			t.Errorf("two lead: %v and %v", first, second)
		default:
		}
		require.NoError(t, e.close())
	})
}

func TestLeaderThatResignsIsFollowedByAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		e, err := open(t.Context(), s)
		require.NoError(t, err)
		last := <-e.terms
		for range 6 {
			time.Sleep(pause) // All stand.
			start := time.Now()
			e.candidates[last.leader].Resign()
			next := <-e.terms
			require.Less(t, time.Since(start), time.Millisecond, "nothing is waited for but requests, which take no time here")
			require.ErrorIs(t, <-last.ended, errResigned)
			require.NotEqual(t, last.leader, next.leader)
			last = next
		}
		require.NoError(t, e.close())
	})
}

func TestLeaderWhoseProcessEndsIsFollowedByAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		e, err := open(t.Context(), s)
		require.NoError(t, err)
		seen := make(map[int]bool)
		for range names {
			start := time.Now()
			next := <-e.terms
			require.Less(t, time.Since(start), ttl, "it need not wait for the end of the ttl")
			require.False(t, seen[next.leader])
			seen[next.leader] = true
			e.stop[next.leader]()
			require.ErrorIs(t, <-next.ended, context.Canceled)
		}
		require.NoError(t, e.close())
	})
}

func TestOneIsLeaderAndEverybodyCanAskWho(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		watcher := recipetest.Client(t, s)
		leader, err := Leader(t.Context(), watcher)
		require.NoError(t, err)
		require.Empty(t, leader)

		e, err := open(t.Context(), s)
		require.NoError(t, err)
		for range 3 {
			now := <-e.terms
			for i, c := range e.candidates {
				require.Equal(t, i == now.leader, c.IsLeader(), names[i])
			}
			leader, err = Leader(t.Context(), watcher)
			require.NoError(t, err)
			require.Equal(t, names[now.leader], leader)
			e.candidates[now.leader].Resign()
			require.False(t, e.candidates[now.leader].IsLeader(), "at once, before lead has returned")
		}
		last := <-e.terms
		require.NoError(t, s.Kill(3))
		require.ErrorIs(t, <-last.ended, redlock.ErrStopTime)
		require.False(t, e.candidates[last.leader].IsLeader())
		_, err = Leader(t.Context(), watcher)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, e.close())
	})
}

// As after a suspension, before the term's context has ended.
func TestLeaderWhoseLockHasEndedLeadsNoMore(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s)
		lock, err := r.Lock(t.Context(), []string{resource}, ttl)
		require.NoError(t, err)
		c := &Candidate{r: r}
		c.begin(t.Context(), lock) // Nothing tells this context of the end.
		require.True(t, c.IsLeader())
		time.Sleep(ttl)
		require.False(t, c.IsLeader())
		c.Resign()
	})
}

func TestLeaderThatFailsAtOnceIsNoHotLoop(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 10*pause-pause/2)
		defer cancel()
		terms := 0
		require.ErrorIs(t, (&Candidate{r: r}).Campaign(ctx, func(context.Context) { terms++ }), context.DeadlineExceeded)
		require.Equal(t, 10, terms)
	})
}

func TestLeaderThatIsCutOffStandsAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		terms, done := make(chan context.Context), make(chan error)
		go func() {
			done <- (&Candidate{r: r}).Campaign(ctx, func(ctx context.Context) {
				terms <- ctx
				<-ctx.Done()
			})
		}()
		for range 3 {
			term := <-terms
			require.NoError(t, term.Err())
			time.Sleep(ttl)
			require.NoError(t, s.Kill(3))
			<-term.Done()
			require.ErrorIs(t, context.Cause(term), redlock.ErrStopTime)
			time.Sleep(3 * ttl)
			require.NoError(t, s.Revive(3))
		}
		<-terms
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// A line is what leads from a candidate to all nodes.
type line struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// set cuts it, or restores it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// dial connects to a node, unless the line is cut.
func (l *line) dial(ctx context.Context, n *testcluster.Node) (redis.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("cut off")
	}
	c, err := n.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l.conns = append(l.conns, c)
	return redis.NewConn(c, 0, 0), nil
}

// candidate returns one with a line of its own.
func candidate(t *testing.T, s *recipe.Stage) (*Candidate, *line) {
	t.Helper()
	l := &line{}
	var nodes []redlock.Node
	for _, n := range s.Nodes {
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return l.dial(ctx, n)
		})})
	}
	return &Candidate{r: testkit.NewOver(t, nodes)}, l
}

// Each takes nearly its stop time to stop, and the others can be elected as soon as the lock of one
// that is cut off has ended.
func TestLeadersAreNeverTwo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		candidates, lines := make([]*Candidate, 3), make([]*line, 3)
		for i := range candidates {
			candidates[i], lines[i] = candidate(t, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var leading, terms atomic.Int64
		done := make(chan []error)
		go func() {
			done <- recipe.Together(len(candidates), func(i int) error {
				return candidates[i].Campaign(ctx, func(ctx context.Context) {
					if n := leading.Add(1); n != 1 {
						t.Errorf("%d lead", n)
					}
					terms.Add(1)
					<-ctx.Done()
					time.Sleep(stopTime * 8 / 10)
					leading.Add(-1)
				})
			})
		}()
		rounds := 50
		if testing.Short() {
			rounds = 12
		}
		for i := range rounds {
			time.Sleep(2*ttl + time.Duration(i)*17*time.Millisecond)
			outage := func(bool) {}
			if i%5 == 4 {
				outage = func(down bool) {
					if down {
						require.NoError(t, s.Kill(3))
					} else {
						require.NoError(t, s.Revive(3))
					}
				}
			} else if leader := slices.IndexFunc(candidates, (*Candidate).IsLeader); leader >= 0 {
				outage = lines[leader].set
			}
			outage(true)
			time.Sleep(ttl * time.Duration(70+i*17%100) / 100) // Some are too short to end a term.
			outage(false)
		}
		cancel()
		for _, err := range <-done {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Greater(t, terms.Load(), int64(rounds/2))
	})
}

func TestLeaderRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}

// BenchmarkResignation says how long nobody leads after a resignation, on this machine
// (the median) and with five real servers on it.
func BenchmarkResignation(b *testing.B) {
	e, err := open(b.Context(), recipe.Servers(b))
	require.NoError(b, err)
	var took []time.Duration
	last := <-e.terms
	for b.Loop() {
		time.Sleep(pause + 100*time.Millisecond) // All stand.
		start := time.Now()
		e.candidates[last.leader].Resign()
		last = <-e.terms
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/resignation")
	require.NoError(b, e.close())
}
