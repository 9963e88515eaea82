package clockwatch

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

type hold struct{ looked atomic.Int32 }

func (h *hold) Jumped() { h.looked.Add(1) }
func (h *hold) Closed() {}

// The clock is watched from each first hold to the last one's end, as often as there are holds again. What happened
// between is none of the later one's business.
func TestHoldsLookOnceForEachJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m clocks
		k := New(func() error { return nil }, func() {}, m.clock())
		for range 3 {
			m.sleep(time.Hour)
			h := new(hold)
			require.NoError(t, k.Keep(h))
			looks := func(after time.Duration, want int, why string) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				assert.EqualValues(t, want, h.looked.Load(), why)
			}
			looks(time.Minute, 0, "it began after the sleep")
			for i := range 3 {
				m.sleep(time.Second)
				looks(tick, i+1, "at once")
				looks(time.Minute, i+1, "once")
			}
			m.set(-time.Hour)
			looks(time.Minute, 3, "no end came nearer")
			k.Leave(h)
			time.Sleep(time.Minute)
		}
	})
}

type held struct {
	until     time.Time
	resources []string
	entry     Entry
}

func (l *held) Resources() []string { return l.resources }

func (l *held) Err() error {
	if time.Now().Before(l.until) {
		return nil
	}
	return errors.New("ended")
}

func until(d time.Duration, resources ...string) *held {
	return &held{until: time.Now().Add(d), resources: resources}
}

func (k *Watch) add(l *held)    { k.Add(l, &l.entry) }
func (k *Watch) remove(l *held) { k.Remove(l, &l.entry) }

func TestHeldForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil, nil)
		assert.Empty(t, s.Held())
		long := until(time.Hour)
		s.add(long)
		for range 1000 {
			s.add(until(time.Second))
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, s.Size(), MinSweep+2)
		time.Sleep(time.Second)
		assert.Equal(t, 1, s.Count())
		assert.Equal(t, 1, s.Size())
		s.add(until(time.Second))
		time.Sleep(time.Second)
		assert.Len(t, s.Held(), 1, "not at its end any more")
		s.remove(long)
		s.remove(long)
		assert.Empty(t, s.Held())
	})
}

// Who looks for the locks of a resource that want to know of it looks at no others.
func TestWantedAreFoundByResource(t *testing.T) {
	k := New(nil, nil, nil)
	one, other, gone := until(0, "a", "b"), until(0, "c"), until(0, "a")
	for _, l := range []*held{one, other} {
		k.add(l)
	}
	for _, l := range []*held{one, other, gone} { // The last one has been removed.
		k.Want(l, &l.entry)
	}
	assert.Equal(t, []Lock{one}, k.Wanted([]string{"a", "b", "x"}))
	assert.Equal(t, []Lock{one, other}, k.Wanted([]string{"b", "c"}))
	assert.Empty(t, k.Wanted([]string{"x"}))

	later := until(0, "b")
	k.add(later)
	k.Want(later, &later.entry)
	k.remove(one)
	assert.Empty(t, k.Wanted([]string{"a"}))
	assert.Equal(t, []Lock{later}, k.Wanted([]string{"b"}), "a later lock on the resource")
	k.remove(later)
	k.remove(other)
	assert.Empty(t, k.wanted)
}

// Each lock is found once, whichever are removed, and whichever have ended.
func TestHeldIsWhatWasAddedLessWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		k, all := New(nil, nil, nil), []*held(nil)
		for range 3000 {
			e := until(time.Duration(1+rng.IntN(400)) * time.Second)
			k.add(e)
			all = append(all, e)
			if i := rng.IntN(2 * len(all)); i < len(all) {
				k.remove(all[i])
				all = slices.Delete(all, i, i+1)
			}
			time.Sleep(time.Second)
			all = slices.DeleteFunc(all, func(e *held) bool { return e.Err() != nil })
			require.LessOrEqual(t, k.Size(), max(2*len(all), MinSweep)+20)
			if rng.IntN(50) > 0 {
				continue
			}
			require.Equal(t, len(all), k.Count())
			held := make(map[Lock]bool)
			for _, l := range k.Held() {
				held[l] = true
			}
			for _, e := range all {
				require.True(t, held[e])
			}
		}
	})
}
