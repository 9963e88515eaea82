package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A delay is at least 1 ms and never longer than all that options may set, and its jitter is at
// most the delay. A negative one ends the wait.
func TestRetryBackoffDelays(t *testing.T) {
	exponential := func(attempt int) time.Duration { return 100 * time.Millisecond << (attempt - 1) }
	o := defaultOptions()
	require.EqualError(t, o.apply([]Option{WithRetryBackoff(nil)}), "redlock: WithRetryBackoff: nil function")
	for want, d := range map[time.Duration]time.Duration{-1: -1, time.Millisecond: 0, maxWait: 1000 * time.Hour} {
		o = defaultOptions()
		require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return d }), WithRetryJitter(0)}))
		assert.Equal(t, want, o.delay(1))
	}
	o = defaultOptions()
	require.NoError(t, o.apply([]Option{WithRetryBackoff(exponential)}))
	for range 100 {
		assert.InDelta(t, 100*time.Millisecond, o.delay(1), float64(100*time.Millisecond))
		assert.InDelta(t, 800*time.Millisecond, o.delay(4), float64(100*time.Millisecond))
	}
	o = defaultOptions()
	require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return time.Millisecond })}))
	for range 100 {
		d := o.delay(1)
		assert.InDelta(t, time.Millisecond, d, float64(time.Millisecond), "with a jitter of no more than the delay")
		assert.GreaterOrEqual(t, d, time.Millisecond)
	}
}

// Of a delay and a jitter that do not go together, the jitter yields, but where both come from one
// call.
func TestRetryJitterOfAnotherCallIsClipped(t *testing.T) {
	const ms = time.Millisecond
	set := func(defaults options, opts ...Option) options {
		require.NoError(t, defaults.apply(opts))
		return defaults
	}
	jitters := func(want time.Duration, o options) { t.Helper(); assert.Equal(t, want, o.retryJitter) }
	jitters(ms, set(defaultOptions(), WithRetryDelay(ms)))
	defaults := set(defaultOptions(), WithRetryJitter(50*ms))
	jitters(ms, set(defaults, WithRetryDelay(ms)))
	jitters(50*ms, set(defaults, WithRetryDelay(time.Second)))
	jitters(200*ms, set(defaults, WithRetryJitter(time.Second)))
	jitters(100*ms, set(set(defaultOptions(), WithRetryDelay(ms)), WithRetryDelay(time.Second)))
	jitters(10*ms, set(set(defaultOptions(), WithRetryDelay(10*ms)), WithRetryJitter(20*ms)))
	for _, opts := range [][]Option{
		{WithRetryDelay(ms), WithRetryJitter(2 * ms)},
		{WithRetryJitter(2 * ms), WithRetryDelay(ms)},
	} {
		require.EqualError(t, defaults.apply(opts), "redlock: retry jitter 2ms: must not exceed the retry delay 1ms")
	}
}

func TestRetryDelayIsUniformAroundTheDelay(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10000 {
		d := jittered(200*time.Millisecond, 100*time.Millisecond)
		low, high = min(low, d), max(high, d)
	}
	assert.GreaterOrEqual(t, low, 100*time.Millisecond)
	assert.LessOrEqual(t, high, 300*time.Millisecond)
	assert.Less(t, low, 110*time.Millisecond)
	assert.Greater(t, high, 290*time.Millisecond)
	assert.Equal(t, time.Second, jittered(time.Second, 0))
	assert.Zero(t, jittered(0, 0))
}
