package node

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSmoothedRoundTripTime(t *testing.T) {
	var r roundTrip
	r.add(-time.Hour)
	assert.Zero(t, r.smoothed, "never below zero")
	r.add(8 * time.Millisecond)
	assert.Equal(t, 4*time.Millisecond, r.smoothed, "one slow reply is half of two")
	for range 6 {
		r.add(4 * time.Millisecond)
	}
	assert.Equal(t, 4*time.Millisecond, r.smoothed)
	for range 2 {
		r.add(r.smoothed + 8*time.Millisecond)
	}
	assert.Equal(t, 6*time.Millisecond, r.smoothed, "from the eighth on an eighth")
}

func TestLimits(t *testing.T) {
	assert.Equal(t, time.Second, Silence(250*time.Millisecond), "a dead connection is found soon")
	assert.Equal(t, 6*time.Second, Silence(3*time.Second))
	assert.Equal(t, time.Second, ConnectLimit(250*time.Millisecond))
	assert.Equal(t, 4*time.Second, ConnectLimit(2*time.Second))
}

func TestTimeAfterALongTTLIsReckonedRight(t *testing.T) {
	assert.Equal(t, time.Duration(math.MaxInt64), after(0, math.MaxInt64))
	assert.Equal(t, time.Duration(math.MaxInt64), after(time.Second, math.MaxInt64))
	assert.Equal(t, time.Minute+time.Second, after(time.Second, time.Minute))
}
