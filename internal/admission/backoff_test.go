package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBackoff(t *testing.T) {
	const timeout = 200 * time.Millisecond
	within := func(want, got time.Duration) {
		t.Helper()
		assert.GreaterOrEqual(t, got, want/2)
		assert.Less(t, got, want*3/2)
	}
	b := Backoff{Random: rand.N[time.Duration]}
	assert.False(t, b.Overloaded())
	assert.Equal(t, time.Millisecond, b.Delay(time.Millisecond, timeout))
	for _, want := range []time.Duration{timeout, 2 * timeout, 4 * timeout, 8 * timeout, 16 * timeout, maxDelay, maxDelay} {
		b.Note(true, true)
		assert.True(t, b.Overloaded())
		within(want, b.Delay(time.Millisecond, timeout))
		within(want, b.Look(timeout))
		b.Note(true, false) // A second look does not double it.
		within(want, b.Look(timeout))
	}
	assert.GreaterOrEqual(t, b.Delay(time.Hour, timeout), time.Hour, "no sooner than the options say")
	b.Note(false, true)
	assert.False(t, b.Overloaded())
	b.Note(true, false)
	assert.True(t, b.Overloaded(), "a second look may begin a row")
	within(timeout, b.Delay(time.Millisecond, timeout))
}
