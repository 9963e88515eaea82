package dispatch

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A hook that ends its goroutine, as testing's FailNow does, loses its own event and no order.
func TestHookThatEndsItsGoroutineChangesNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		var d *Dispatcher[int]
		d = New(func(ctx context.Context, e int) {
			time.Sleep(time.Second)
			got = append(got, e)
			if e == 2 {
				d.Send(ctx, 5) // Behind those that wait already.
				runtime.Goexit()
			}
		}, func(*int, time.Time, uint64) {})
		for e := range 5 {
			d.Send(t.Context(), e)
		}
		d.Drain(t.Context())
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, got)
	})
}

// What is being delivered does not wait any more, and has not been delivered yet.
func TestDrainWaitsForWhatIsBeingDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delivered atomic.Bool
		d := New(func(context.Context, int) {
			time.Sleep(time.Second)
			delivered.Store(true)
		}, func(*int, time.Time, uint64) {})
		d.Drain(t.Context())
		d.Send(t.Context(), 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		d.Drain(ctx)
		assert.False(t, delivered.Load(), "for its context at most")
		d.Drain(t.Context())
		assert.True(t, delivered.Load())
	})
}

func TestLimiterHasOneEventStandForThoseBeforeIt(t *testing.T) {
	var l Limiter
	start := time.Now()
	before, pass := l.Pass(start, time.Second)
	assert.True(t, pass)
	assert.Zero(t, before)
	for i := range 3 {
		_, pass = l.Pass(start.Add(time.Duration(i)*300*time.Millisecond), time.Second)
		assert.False(t, pass)
	}
	before, pass = l.Pass(start.Add(time.Second), time.Second)
	assert.True(t, pass)
	assert.Equal(t, 3, before)
	_, pass = l.Pass(start.Add(1999*time.Millisecond), time.Second)
	assert.False(t, pass, "counted from the last one")
	before, pass = l.Pass(start.Add(2*time.Second), time.Second)
	assert.True(t, pass)
	assert.Equal(t, 1, before, "since the last one")
}
