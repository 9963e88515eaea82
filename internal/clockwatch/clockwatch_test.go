package clockwatch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type hold struct{ looked atomic.Int32 }

func (h *hold) Jumped() { h.looked.Add(1) }
func (h *hold) Closed() {}

func TestHoldsLookOnceForEachJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m clocks
		k := New(func() error { return nil }, func() {}, m.clock())
		m.sleep(time.Hour)
		h := new(hold)
		require.NoError(t, k.Keep(h))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, h.looked.Load(), "it began after the sleep")
		for i := range 3 {
			m.sleep(time.Second)
			time.Sleep(tick)
			synctest.Wait()
			assert.EqualValues(t, i+1, h.looked.Load())
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.EqualValues(t, i+1, h.looked.Load())
		}
		m.set(-time.Hour)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 3, h.looked.Load(), "no end came nearer")
		k.Leave(h)
	})
}

// The clock is watched from each first hold to the last one's end, as often as there are holds again. What happened
// between is none of the later one's business.
func TestHoldsLookThoughOthersHaveEndedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m clocks
		k := New(func() error { return nil }, func() {}, m.clock())
		for range 3 {
			m.sleep(time.Hour)
			h := new(hold)
			require.NoError(t, k.Keep(h))
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Zero(t, h.looked.Load(), "it began after the sleep")
			m.sleep(time.Second)
			time.Sleep(tick)
			synctest.Wait()
			assert.EqualValues(t, 1, h.looked.Load())
			k.Leave(h)
			time.Sleep(time.Minute)
		}
	})
}
