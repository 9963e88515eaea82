package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRedialer(t *testing.T) {
	const ms = time.Millisecond
	start := time.Now()
	var d Redialer
	for _, want := range []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second} {
		assert.Equal(t, want, d.Failed())
	}
	assert.Equal(t, time.Second, d.After(false, false, 999*ms, start), "too short to count")
	assert.Equal(t, time.Second, d.After(true, true, 999*ms, start), "answers of the wrong server do not count")
	assert.Equal(t, 20*ms, d.After(true, true, time.Hour, start), "but it has been the right one for long")
	now := start.Add(2 * time.Hour)
	for range Redials {
		assert.Zero(t, d.After(true, false, 0, now))
	}
	assert.Equal(t, 100*ms, d.After(true, false, 0, now), "the bucket is empty")
	now = now.Add(300 * ms)
	assert.Zero(t, d.After(true, false, 0, now))
	assert.Zero(t, d.After(false, false, time.Second, now), "it has lasted")
	assert.Equal(t, 100*ms, d.After(true, false, 0, now))
	assert.Equal(t, 20*ms, d.After(false, false, 0, now), "the backoff begins anew")
}
