package clockwatch

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/lease"
)

// clocks are what a machine has besides its monotonic clock.
type clocks struct {
	mu          sync.Mutex
	wall, slept time.Duration
	tells       bool // how long it has slept
}

func (c *clocks) clock() *Clock {
	return newClock(func() time.Duration {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.wall
	}, func() (time.Duration, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.slept, c.tells
	})
}

func (c *clocks) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

func (c *clocks) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.slept = c.wall+d, c.slept+d
}

func lead(c *Clock) time.Duration {
	_, lead := c.Now()
	return lead
}

func TestLeadIsWhatAnyOtherClockHasGained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tells := range []bool{true, false} {
			m := clocks{slept: 5 * time.Hour, tells: tells}
			c := m.clock()
			time.Sleep(time.Hour)
			assert.Zero(t, lead(c))
			m.sleep(25 * time.Second)
			assert.Equal(t, 25*time.Second, lead(c), "each sleep counts once")
			m.set(-time.Minute)
			assert.Equal(t, 25*time.Second, lead(c))
			m.sleep(time.Second)
			assert.Equal(t, 26*time.Second, lead(c), "the wall clock had been set back")
			m.set(3 * time.Second)
			assert.Equal(t, 29*time.Second, lead(c), "a virtual machine that stood still has no other sign of it")
			m.set(jump - 1)
			assert.Equal(t, 29*time.Second, lead(c))
			m.set(1)
			assert.Equal(t, 29*time.Second+jump, lead(c), "slewing adds up")
		}
	})
}

// What happens between two looks is seen where the system says how long it has slept.
func TestLeadGrowsThoughTheWallClockWasSetBackBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clocks{tells: true}
		c := m.clock()
		d := lease.NewDeadline(time.Now(), 20*time.Second, 0)
		m.set(-30 * time.Second)
		m.sleep(25 * time.Second)
		assert.True(t, d.Passed(c.Now()))
		assert.Equal(t, 25*time.Second, lead(c))
	})
}

func TestLeadOfATimeBeforeASleepIsNotThatAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m clocks
		c := m.clock()
		before := time.Now() // Some goroutine reads it, and goes on after the sleep.
		time.Sleep(time.Second)
		m.sleep(time.Minute)
		at, lead := c.At(before)
		assert.Equal(t, time.Now(), at)
		assert.Equal(t, time.Minute, lead)
	})
}

func TestSleptIsWhatTheMachineSays(t *testing.T) {
	first, ok := slept()
	if assert.Equal(t, runtime.GOOS == "linux", ok); !ok {
		return
	}
	assert.GreaterOrEqual(t, first, -jump)
	second, _ := slept()
	assert.InDelta(t, first, second, float64(jump), "in fake time, too, it is that of the machine")
}
