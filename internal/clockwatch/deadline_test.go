package clockwatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestADeadlineHasPassedWhenEitherClockSaysSo(t *testing.T) {
	start := time.Now()
	d := NewDeadline(start, time.Second, 0)
	assert.False(t, d.Passed(start, 0))
	assert.False(t, d.Passed(start.Add(time.Second-1), 0))
	assert.True(t, d.Passed(start.Add(time.Second), 0))
	assert.True(t, d.Passed(start, time.Second), "the machine slept: the monotonic clock stood still")
	assert.True(t, d.Passed(start.Add(time.Second), -time.Hour), "the wall clock was set back")
	offset := NewDeadline(start, time.Second, time.Hour)
	assert.False(t, offset.Passed(start, time.Hour))
	later := d.Later(NewDeadline(start, 2*time.Second, -time.Minute))
	assert.Equal(t, start.Add(2*time.Second), later.Mono)
	assert.Equal(t, start.Round(0).Add(2*time.Second-time.Minute), later.Wall,
		"the wall clock was set back: the old one of it would never be reached")
	assert.Equal(t, later, later.Later(d))
}
