package brief

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 2: "2 nodes", 31: "31 nodes"} {
		assert.Equal(t, want, Count(n, "node"))
	}
}
