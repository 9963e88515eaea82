package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What could not be written goes back ahead of what was queued meanwhile, with its counts.
func TestRequestQueueAppend(t *testing.T) {
	lock, release := &Request{Task: &Task{Kind: LockRequest}}, &Request{Task: &Task{Kind: Release}}
	later := &Request{Task: &Task{Kind: LockRequest}}
	var first, second requestQueue
	first.push(lock)
	first.push(release)
	second.push(later)
	first.append(second)
	first.append(requestQueue{})
	assert.Equal(t, [2]int{3, 2}, [2]int{first.len, first.locks})
	for _, want := range []*Request{lock, release, later} {
		assert.Same(t, want, first.pop())
	}
	assert.Equal(t, [2]int{}, [2]int{first.len, first.locks})
}
