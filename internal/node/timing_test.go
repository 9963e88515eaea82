package node

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSmoothedRoundTripTime(t *testing.T) {
	assert.Equal(t, 8*time.Millisecond, smoothed(0, 8*time.Millisecond), "the first")
	assert.Equal(t, 9*time.Millisecond, smoothed(8*time.Millisecond, 16*time.Millisecond), "an eighth")
	assert.Equal(t, 7*time.Millisecond, smoothed(8*time.Millisecond, -time.Hour), "never below zero")
	assert.Zero(t, smoothed(0, -time.Millisecond))
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
