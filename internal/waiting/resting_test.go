package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever has left, by a pass or because it gave up, is not kept until the end of a turn, which may be minutes away.
func TestTurnForgetsThoseThatHaveLeft(t *testing.T) {
	for name, passes := range map[string]bool{"passed": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			q, now, keys := NewQueue(3, 2, func(time.Duration) time.Duration { return 0 }), time.Now(), []any{"x"}
			turn := q.BeginTurn(keys, now.Add(time.Hour), now)
			join := func() *Waiter {
				w := NewWaiter(keys, time.Second, now, func() {})
				w.Caller = w
				_, rests := q.JoinBehind(w)
				require.True(t, rests)
				return w
			}
			q.Leave(join(), false, now) // The first one gives up.
			stays := join()
			for range 1000 {
				if w := join(); passes {
					q.Pass(turn, q.Next(turn, now), turn, now)
					stays = w
				} else {
					q.Leave(w, false, now)
				}
			}
			assert.Less(t, len(turn.resting), 10)
			assert.Contains(t, turn.resting, stays, "who waits is notified at the end")
		})
	}
}
