package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestQuorumIsAStrictMajorityOfTheConfiguredNodes(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		assert.Equal(t, want, quorum(n), "n=%d", n)
	}
}

// A key lives for no less than the validity that is counted from the exact ttl.
func TestMillisecondsAreRoundedUp(t *testing.T) {
	assert.Equal(t, int64(1), serverMillis(time.Millisecond))
	assert.Equal(t, int64(2), serverMillis(time.Millisecond+1))
	assert.Equal(t, int64(2), serverMillis(2*time.Millisecond))
}

// For how long a quorum of keys lives, of which one has no expiry.
func TestQuorumOfKeysHasALife(t *testing.T) {
	assert.Equal(t, 2*time.Second, needed([]time.Duration{time.Second, -1, 2 * time.Second}, 2))
}
