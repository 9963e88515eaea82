package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
