package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/waiting"
)

// What is passed on goes ahead of the requests of those that come later: before it has gone, nobody else uses the line. A
// pass that leaves the nodes' lines would take the place of a call of this process that has got in line since.
func TestLinePassesBeforeAnybodyElseUsesIt(t *testing.T) {
	passed := 0
	var l *Line
	l = NewLine(1, 1, func(waiting.Pass) {
		passed++
		if !assert.False(t, l.mu.TryLock(), "somebody else may use the line") {
			l.mu.Unlock()
		}
	})
	l.Do(func(q *waiting.Queue, now time.Time) {
		w := waiting.NewWaiter([]any{"x"}, time.Second, now, func() {})
		q.Join(w, now)
		q.Begin(w, true)
		q.Leave(w, false, now)
	})
	assert.Equal(t, 1, passed)
}
