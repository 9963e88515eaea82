package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const admissionTimeout = 250 * time.Millisecond

// fullAdmission returns an admission in which all places are taken.
func fullAdmission(t *testing.T) *admission {
	t.Helper()
	a := newAdmission()
	for range a.window.limit() {
		waited, err := a.enter(t.Context(), admissionTimeout)
		require.NoError(t, err)
		require.Zero(t, waited)
	}
	return a
}

func TestAdmissionIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fullAdmission(t)
		var mu sync.Mutex
		var order []int
		for i := range 10 {
			go func() {
				waited, err := a.enter(t.Context(), admissionTimeout)
				assert.NoError(t, err)
				assert.Greater(t, waited, time.Duration(0))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		for range 10 {
			a.giveBack()
			synctest.Wait()
		}
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

// Node timeouts are the calls' own: who came later may be turned away earlier.
func TestAdmissionTurnsEachAwayInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fullAdmission(t)
		var wg sync.WaitGroup
		for i := range 300 {
			timeout := []time.Duration{10 * time.Second, time.Second, 250 * time.Millisecond, 20 * time.Millisecond, time.Millisecond}[i%5]
			wg.Go(func() {
				start := time.Now()
				waited, err := a.enter(context.Background(), timeout)
				assert.Equal(t, time.Since(start), waited)
				assert.GreaterOrEqual(t, waited, timeout*7/10)
				assert.LessOrEqual(t, waited, timeout*3/4)
				assert.ErrorIs(t, err, ErrOverloaded)
			})
			time.Sleep(rand.N(time.Millisecond))
		}
		wg.Wait()
		busy, queued, limit := a.stats()
		assert.Equal(t, []int{limit, 0}, []int{busy, queued})
	})
}

func TestAdmissionOfOneWhoseContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fullAdmission(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := a.enter(ctx, admissionTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, queued, _ := a.stats()
		assert.Zero(t, queued)

		// At the moment of its turn: the place is free for the next one.
		ctx, cancel = context.WithCancel(t.Context())
		first, second := make(chan error), make(chan error)
		go func() { _, err := a.enter(ctx, admissionTimeout); first <- err }()
		synctest.Wait()
		go func() { _, err := a.enter(context.Background(), admissionTimeout); second <- err }()
		synctest.Wait()
		a.mu.Lock()
		a.freeLocked()
		cancel()
		a.mu.Unlock()
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-second)
		busy, queued, limit := a.stats()
		assert.Equal(t, []int{limit, 0}, []int{busy, queued})
	})
}

func TestAdmissionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fullAdmission(t)
		var closed atomic.Int64
		for range 100 {
			go func() {
				_, err := a.enter(t.Context(), admissionTimeout)
				assert.ErrorIs(t, err, ErrClosed)
				closed.Add(1)
			}()
		}
		synctest.Wait()
		a.close()
		synctest.Wait()
		assert.EqualValues(t, 100, closed.Load())
		a.giveBack()
		_, err := a.enter(t.Context(), admissionTimeout)
		assert.ErrorIs(t, err, ErrClosed)
	})
}

// Places are neither lost nor made, whatever ends the waits.
func TestAdmissionKeepsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission()
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(400*time.Millisecond))
					timeout := rand.N(400*time.Millisecond) + 1
					if _, err := a.enter(ctx, timeout); err == nil {
						n := inside.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						took := rand.N(100 * time.Millisecond)
						time.Sleep(took)
						inside.Add(-1)
						a.leave(sample{took: took, timeout: admissionTimeout, answered: true}, time.Now())
					}
					cancel()
				}
			})
		}
		wg.Wait()
		busy, queued, _ := a.stats()
		assert.Equal(t, []int{0, 0}, []int{busy, queued})
		assert.Empty(t, a.dues)
		assert.LessOrEqual(t, most.Load(), int64(maxWindow))
		assert.GreaterOrEqual(t, most.Load(), int64(easyWindow))
	})
}

func TestAdmissionThatIsFreeAllocatesNothing(t *testing.T) {
	a := newAdmission()
	s := sample{took: time.Millisecond, timeout: admissionTimeout, answered: true}
	now := time.Now()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = a.enter(context.Background(), admissionTimeout)
		a.leave(s, now)
	}))
}
