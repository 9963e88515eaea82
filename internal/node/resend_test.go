package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// settled is an observer that collects how many releases it is told of at a time.
type settled []int

func (*settled) Up() {}

func (*settled) Lost(error) {}

func (s *settled) Settled(_, count int) { *s = append(*s, count) }

func (*settled) Deaf(error)                {}
func (*settled) Unresponsive(error)        {}
func (*settled) Vanished(time.Time, int64) {}

// The observer is told of the releases that were owed when the last one has been answered, or the connection ends.
func TestReleasesThatAreOwedAreToldTogether(t *testing.T) {
	var told settled
	n := &Node{Config: Config{Observer: &told}, epoch: time.Now(), state: nodeUp}
	n.work.L = &n.mu
	for range 3 {
		trace := new(Trace)
		trace.Begin(released{}, 1, time.Minute)
		trace.marks[0] = MarkSent
		n.owe(&Request{Task: &Task{Kind: Release, Trace: trace}})
	}
	n.sendReleases()
	n.released(n.queue.pop(), true)
	assert.Empty(t, told)
	n.inFlight.push(n.queue.pop()) // The third one is not even written.
	assert.Empty(t, n.leaveOpen())
	assert.Equal(t, settled{1}, told)
	assert.Zero(t, n.queue.len+n.inFlight.len+n.releases.out)
	n.sendReleases()
	n.released(n.queue.pop(), true)
	assert.Len(t, told, 1)
	n.released(n.queue.pop(), true)
	assert.Equal(t, settled{1, 2}, told)
	n.leaveOpen()
	assert.Len(t, told, 2)
}
