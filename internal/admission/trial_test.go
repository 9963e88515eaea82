package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// play has a trial see rounds that all take as long, one each millisecond, for so long.
func (t *trial) play(now *time.Time, length, took time.Duration) (way time.Duration) {
	for range length / time.Millisecond {
		*now = now.Add(time.Millisecond)
		way = max(way, t.observe(took, 100, *now))
	}
	return way
}

func TestTrial(t *testing.T) {
	const before = 20 * time.Millisecond
	for name, c := range map[string]struct{ took, way time.Duration }{
		"a longer way": {18 * time.Millisecond, 18 * time.Millisecond},
		"a queue":      {17 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var try trial
			now := time.Now()
			assert.Zero(t, try.play(&now, minStuck+minPhase, before))
			assert.Zero(t, try.held)
			assert.Zero(t, try.play(&now, 10*time.Millisecond, before))
			assert.InDelta(t, 50, try.held, 0)
			assert.Zero(t, try.play(&now, 10*time.Millisecond, before), "they began with all places")
			assert.Equal(t, c.way, try.play(&now, 55*time.Millisecond, c.took))
			assert.Less(t, try.held, 50.0)
			assert.Greater(t, try.held, 25.0, "one place after the other")
			try.play(&now, 40*time.Millisecond, c.took)
			assert.Zero(t, try.held)
			assert.Equal(t, refilled, try.phase, "what is over now began with fewer places")
			try.play(&now, 30*time.Millisecond, c.took)
			assert.Equal(t, stuck, try.phase, "the next one")
		})
	}
}
