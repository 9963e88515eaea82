package node

import (
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
