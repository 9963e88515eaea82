package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
