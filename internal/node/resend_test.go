package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Releases that were owed are told of when the last one has been answered, or the connection ends.
func TestReleasesThatAreOwedAreToldTogether(t *testing.T) {
	now := time.Now()
	n := &Node{Config: Config{Epoch: now}, state: Up}
	settled := func() (released int) {
		for _, f := range n.Facts() {
			assert.Equal(t, Settled, f.What)
			released += f.Released
		}
		return released
	}
	for range 3 {
		trace := new(Trace)
		trace.Begin(released{}, 1)
		trace.places[0].mark = MarkSent
		n.owe(&Request{Task: &Task{Kind: Release, Trace: trace}}, now)
	}
	n.sendReleases(now)
	n.released(n.queue.pop(), true, now)
	assert.Zero(t, settled())
	n.inFlight.push(n.queue.pop()) // The third one is not even written.
	assert.Empty(t, n.leaveOpen(now))
	assert.Equal(t, 1, settled())
	assert.Zero(t, n.queue.len+n.inFlight.len+n.releases.out)
	n.sendReleases(now)
	n.released(n.queue.pop(), true, now)
	assert.Zero(t, settled())
	n.released(n.queue.pop(), true, now)
	assert.Equal(t, 2, settled())
	n.leaveOpen(now)
	assert.Zero(t, settled())
}
