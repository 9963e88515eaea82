package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeadline(t *testing.T) {
	start := time.Now()
	d := NewDeadline(start, time.Second, time.Hour)
	assert.False(t, d.Passed(start, time.Hour))
	assert.False(t, d.Passed(start.Add(time.Second-1), time.Hour))
	assert.True(t, d.Passed(start.Add(time.Second), time.Hour))
	assert.False(t, d.Passed(start, time.Hour+time.Second-1))
	assert.True(t, d.Passed(start, time.Hour+time.Second), "the machine slept: the monotonic clock stood still")
	assert.Equal(t, 400*time.Millisecond, d.Remaining(start.Add(100*time.Millisecond), time.Hour+500*time.Millisecond))
	later := NewDeadline(start, time.Second, time.Hour+1)
	assert.Equal(t, later, d.Later(later), "the clock was ahead more when it began")
	assert.Equal(t, later, later.Later(d))
}

func TestDrift(t *testing.T) {
	assert.Equal(t, 102*time.Millisecond, Drift(10*time.Second, 0.01))
	assert.Equal(t, 2*time.Millisecond, Drift(10*time.Second, 0))
	assert.Equal(t, 9898*time.Millisecond, Validity(10*time.Second, 0.01))
	assert.Equal(t, 10*time.Second, TTLFor(9*time.Second, 898*time.Millisecond, 0.01))
	assert.Equal(t, time.Second, TTLFor(0, 998*time.Millisecond, 0))
	assert.Positive(t, TTLFor(math.MaxInt64, math.MaxInt64, 0.999))
}

// The validity never exceeds what the node was told, with any clocks whose
// rates differ by less than the factor.
func FuzzDrift(f *testing.F) {
	f.Add(int64(10*time.Second), 0.01)
	f.Add(int64(math.MaxInt64), 0.999)
	f.Fuzz(func(t *testing.T, ns int64, factor float64) {
		d := time.Duration(ns)
		if d < time.Millisecond || math.IsNaN(factor) || factor < 0 || factor >= 1 {
			return
		}
		v := Validity(d, factor)
		require.Less(t, v, d)
		if back := TTLFor(v, 0, factor); v > 0 && d < math.MaxInt64/2 {
			require.InDelta(t, d, back, 2/(1-factor)+float64(d)*1e-12/(1-factor), "%v", v)
		}
		if v > 0 {
			require.LessOrEqual(t, float64(v), float64(d)*(1-factor)+1)
		}
	})
}
