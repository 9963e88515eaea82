package main

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

func TestLeaderKeepsLeading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := open(t.Context(), recipe.Bubble(t))
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := open(t.Context(), recipe.Bubble(t))
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := open(t.Context(), recipe.Bubble(t))
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := recipe.Bubble(t)
		watcher, err := s.Client()
		require.NoError(t, err)
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
		require.ErrorIs(t, <-last.ended, redlock.ErrExpired)
		require.False(t, e.candidates[last.leader].IsLeader())
		_, err = Leader(t.Context(), watcher)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, e.close())
	})
}

func TestLeaderThatFailsAtOnceIsNoHotLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := recipe.Bubble(t).Client()
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*pause-pause/2)
		defer cancel()
		terms := 0
		require.ErrorIs(t, (&Candidate{r: r}).Campaign(ctx, func(context.Context) { terms++ }), context.DeadlineExceeded)
		require.Equal(t, 10, terms)
	})
}

func TestLeaderThatIsCutOffStandsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := recipe.Bubble(t)
		r, err := s.Client()
		require.NoError(t, err)
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
			require.ErrorIs(t, context.Cause(term), redlock.ErrExpired)
			time.Sleep(3 * ttl)
			require.NoError(t, s.Revive(3))
		}
		<-terms
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestLeadersAreNeverTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := recipe.Bubble(t)
		clients, err := s.Clients(4)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var leading, terms atomic.Int64
		done := make(chan []error)
		go func() {
			done <- recipe.Together(len(clients), func(i int) error {
				return (&Candidate{r: clients[i]}).Campaign(ctx, func(ctx context.Context) {
					if n := leading.Add(1); n != 1 {
						t.Errorf("%d lead", n)
					}
					terms.Add(1)
					_ = recipe.Sleep(ctx, 3*ttl) // Then it has enough.
					leading.Add(-1)
				})
			})
		}()
		rounds := 8
		if testing.Short() {
			rounds = 3
		}
		for range rounds { // Half a ttl is too short to end a term, two and a half are not.
			for _, down := range []time.Duration{ttl / 2, ttl * 5 / 2} {
				time.Sleep(2 * ttl)
				require.NoError(t, s.Kill(3))
				time.Sleep(down)
				require.NoError(t, s.Revive(3))
			}
		}
		cancel()
		for _, err := range <-done {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Greater(t, terms.Load(), int64(rounds))
	})
}

func TestLeaderRuns(t *testing.T) {
	t.Parallel()
	require.NoError(t, recipe.Run(t.Context(), t.Output(), tell))
}

// BenchmarkResignation says how long nobody leads after a resignation, on this machine
// (the median).
func BenchmarkResignation(b *testing.B) {
	require.NoError(b, recipe.Run(b.Context(), io.Discard, func(ctx context.Context, s *recipe.Stage) error {
		e, err := open(ctx, s)
		if err != nil {
			return err
		}
		var took []time.Duration
		last := <-e.terms
		for b.Loop() {
			time.Sleep(pause + 100*time.Millisecond) // All stand.
			start := time.Now()
			e.candidates[last.leader].Resign()
			last = <-e.terms
			took = append(took, time.Since(start))
		}
		b.ReportMetric(0, "ns/op")
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/resignation")
		return e.close()
	}))
}
