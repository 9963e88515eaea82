package redlocktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

func TestLoseInTheMiddleOfADo(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 5, calm())
		failure := errors.New("stopped")
		for _, want := range []error{nil, failure} {
			start := time.Now()
			err := c.Redlock.Do(t.Context(), []string{"b", "a"}, time.Hour, func(ctx context.Context, l *redlock.Lock) error {
				require.NoError(t, ctx.Err())
				c.Lose(l)
				require.Equal(t, redlock.ErrLost, within(ctx, patience))
				require.Equal(t, redlock.ErrLost, l.Err())
				require.Empty(t, c.Held())
				return want
			})
			tryLock(t, c.NewRedlock(), "a")
			c.Forget("a")
			require.Empty(t, c.Held())
			require.ErrorIs(t, err, redlock.ErrLost)
			require.NotErrorIs(t, err, redlock.ErrExpired)
			if want != nil {
				require.ErrorIs(t, err, want)
			}
			require.Less(t, time.Since(start), patience)
			c.AssertFree()
		}
	})
}

func TestLoseAKeptLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm())
		l := tryLock(t, c.Redlock, "a")
		ctx := l.KeepAlive(t.Context())
		again := l.KeepAlive(t.Context())
		c.Lose(l)
		require.Equal(t, redlock.ErrLost, within(ctx, patience))
		require.Equal(t, redlock.ErrLost, within(again, patience))

		// Once more: nothing is left to lose, and what somebody else has got is theirs.
		release := c.Take("a", time.Minute)
		c.Lose(l)
		require.NotEmpty(t, c.Holder("a"))
		release()
	})
}

func TestLoseWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3)
		l := tryLock(t, c.Redlock, "a")
		c.HangMajority()
		c.Lose(l)
		require.NoError(t, l.Err())
		require.Len(t, tb.errors, 1)
		require.Contains(t, tb.errors[0], "no quorum")
		tb.finish()
	})
}

// A lock with turns has a Token that no key has.
func TestLoseALockWithTurns(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t, 3, calm(), redlock.WithTurn(10*time.Millisecond))
		l, err := c.Redlock.Lock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		c.Lose(l)
		require.Equal(t, redlock.ErrLost, l.Err())
		require.Empty(t, c.Held())
		c.AssertFree()
	})
}
