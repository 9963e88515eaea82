package redlock_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

func TestGuardRefusesEarlierHolders(t *testing.T) {
	var g redlock.Guard
	ran := 0
	write := func() error { ran++; return nil }
	require.NoError(t, g.Do(7, write))
	require.NoError(t, g.Do(7, write), "a holder comes more than once")
	require.NoError(t, g.Do(9, write))
	err := g.Do(8, write)
	require.ErrorIs(t, err, redlock.ErrFenced)
	require.ErrorContains(t, err, "fence 8 is behind 9")
	for _, fence := range []int64{0, -1} {
		err = g.Do(fence, write)
		require.ErrorContains(t, err, "must be at least 1")
		require.NotErrorIs(t, err, redlock.ErrFenced)
	}
	assert.Equal(t, 3, ran)
	assert.EqualValues(t, 9, g.Seen())

	failed := errors.New("failed")
	require.ErrorIs(t, g.Do(10, func() error { return failed }), failed)
	assert.Panics(t, func() { _ = g.Do(11, func() error { panic("x") }) })
	require.ErrorIs(t, g.Do(10, write), redlock.ErrFenced, "the later holder was there")
	require.ErrorIs(t, redlock.NewGuard(5).Do(4, write), redlock.ErrFenced)
}

func TestGuardLetsNothingOverlapOrGoBack(t *testing.T) {
	var g redlock.Guard
	var wg sync.WaitGroup
	last, inside := int64(0), 0
	for range 50 {
		wg.Go(func() {
			for range 100 {
				fence := 1 + rand.Int64N(1000)
				_ = g.Do(fence, func() error {
					inside++ // The race detector sees it if two get in.
					assert.Equal(t, 1, inside)
					assert.GreaterOrEqual(t, fence, last)
					last = fence
					inside--
					return nil
				})
			}
		})
	}
	wg.Wait()
}
