package main

import (
	"context"
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
		seen := make(map[int]bool)
		for range names {
			start := time.Now()
			next := <-e.terms
			require.Less(t, time.Since(start), ttl, "it need not wait for the end of the ttl")
			require.False(t, seen[next.leader])
			seen[next.leader] = true
			e.resign[next.leader]()
			require.ErrorIs(t, <-next.ended, context.Canceled)
		}
		require.NoError(t, e.close())
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
			done <- campaign(ctx, r, func(ctx context.Context) {
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
				return campaign(ctx, clients[i], func(ctx context.Context) {
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
