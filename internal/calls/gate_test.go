package calls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/admission"
)

const testTimeout = 250 * time.Millisecond

var errClosed = errors.New("closed")

// fullGate returns a gate in which all places are taken.
func fullGate(t *testing.T) *Gate {
	t.Helper()
	g := NewGate()
	_, _, limit := g.Stats()
	for range limit {
		waited, err := g.Enter(t.Context(), testTimeout)
		require.NoError(t, err)
		require.Zero(t, waited)
	}
	return g
}

// order is that in which callers with these node timeouts, who come one after the other, get places.
func order(t *testing.T, timeouts ...time.Duration) (served []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t)
		for i, timeout := range timeouts {
			go func() {
				waited, err := g.Enter(t.Context(), timeout)
				assert.NoError(t, err)
				assert.Positive(t, waited)
				served = append(served, i)
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		for range timeouts {
			g.GiveBack()
			synctest.Wait()
		}
	})
	return served
}

func TestGateIsFirstComeFirstServed(t *testing.T) {
	assert.Equal(t, []int{0, 1, 2, 3, 4}, order(t, testTimeout, testTimeout, testTimeout, testTimeout, testTimeout))
}

// The place of a round that shows that there may be more of them goes on to the callers that
// wait, and with it the new ones: if nobody else came, they would wait for another round.
func TestGateUsesAPlaceMoreAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t)
		var inside atomic.Int64
		for range 3 {
			go func() {
				_, err := g.Enter(t.Context(), testTimeout)
				assert.NoError(t, err)
				inside.Add(1)
			}()
		}
		synctest.Wait()
		g.Leave(admission.Sample{Took: time.Millisecond, Timeout: testTimeout, Answered: true}, time.Now())
		synctest.Wait()
		assert.EqualValues(t, 2, inside.Load())
		_, _, limit := g.Stats()
		assert.EqualValues(t, 2*limit, g.UnansweredLimit().Load())
		g.GiveBack()
		synctest.Wait()
		assert.EqualValues(t, 3, inside.Load())
	})
}

// A caller with a short node timeout need not wait for all that came before and have longer.
func TestGateLetsInFirstWhoIsTurnedAwayFirst(t *testing.T) {
	assert.Equal(t, []int{2, 1, 0}, order(t, 10*time.Second, time.Second, testTimeout))
}

// Node timeouts are the calls' own: who came later may be turned away earlier.
func TestGateTurnsEachAwayInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t)
		var wg sync.WaitGroup
		for i := range 300 {
			timeout := []time.Duration{10 * time.Second, time.Second, 250 * time.Millisecond, 20 * time.Millisecond, time.Millisecond}[i%5]
			wg.Go(func() {
				start := time.Now()
				waited, err := g.Enter(context.Background(), timeout)
				assert.Equal(t, time.Since(start), waited)
				assert.GreaterOrEqual(t, waited, timeout*7/10)
				assert.LessOrEqual(t, waited, timeout*3/4)
				assert.ErrorIs(t, err, ErrTurnedAway)
			})
			time.Sleep(time.Duration(i*7919%1000) * time.Microsecond)
		}
		wg.Wait()
		busy, queued, limit := g.Stats()
		assert.Equal(t, []int{limit, 0}, []int{busy, queued})
	})
}

func TestGateEndsTheWaitOfOneWhoseContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := g.Enter(ctx, testTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, queued, _ := g.Stats()
		assert.Zero(t, queued)

		// At the moment of its turn, just before or after it: the place is free for the next one.
		for _, before := range []bool{true, false} {
			ctx, cancel = context.WithCancel(t.Context())
			first, second := make(chan error), make(chan error)
			go func() { _, err := g.Enter(ctx, testTimeout); first <- err }()
			synctest.Wait()
			go func() { _, err := g.Enter(context.Background(), testTimeout); second <- err }()
			synctest.Wait()
			g.mu.Lock()
			if before {
				cancel()
			}
			g.rules.GiveBack()
			g.letInLocked()
			cancel()
			g.mu.Unlock()
			if ended := <-first; ended == nil && !before { // It was told before its context had ended.
				g.GiveBack()
			} else {
				require.ErrorIs(t, ended, context.Canceled)
			}
			require.NoError(t, <-second)
			busy, queued, limit := g.Stats()
			assert.Equal(t, []int{limit, 0}, []int{busy, queued})
		}
	})
}

func TestGateCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t)
		var closed atomic.Int64
		for range 100 {
			go func() {
				_, err := g.Enter(t.Context(), testTimeout)
				assert.ErrorIs(t, err, errClosed)
				closed.Add(1)
			}()
		}
		synctest.Wait()
		g.Close(errClosed)
		synctest.Wait()
		assert.EqualValues(t, 100, closed.Load())
		g.GiveBack()
		_, err := g.Enter(t.Context(), testTimeout)
		assert.ErrorIs(t, err, errClosed)
	})
}
