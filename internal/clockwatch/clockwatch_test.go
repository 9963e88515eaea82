package clockwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type hold struct{ looked int }

func (h *hold) Jumped()   { h.looked++ }
func (h *hold) End(error) {}

func TestHoldsLookOnceForEachJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m clocks
		k := New(func() error { return nil }, func() {}, m.clock())
		m.sleep(time.Hour)
		h := new(hold)
		require.NoError(t, k.Add(h))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, h.looked, "it began after the sleep")
		for i := range 3 {
			m.sleep(time.Second)
			time.Sleep(tick)
			synctest.Wait()
			assert.Equal(t, i+1, h.looked)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, i+1, h.looked)
		}
		m.set(-time.Hour)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 3, h.looked, "no end came nearer")
		k.Remove(h)
	})
}
