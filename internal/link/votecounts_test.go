package link

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/node"
)

func TestVotesAreCountedByWhatTheySay(t *testing.T) {
	var c Votes
	for _, out := range []node.Outcome{
		{Stance: node.Yes},
		{Stance: node.No, Err: errors.New("taken")},
		{Stance: node.Gone, Err: errors.New("lost")},
		{Stance: node.Silent, Err: node.ErrWithdrawn},
		{Stance: node.Silent, Err: fmt.Errorf("late: %w", node.ErrTimeout)},
		{Stance: node.Silent, Err: node.ErrOverloaded},
		{Stance: node.Silent, Err: errors.New("quarantined"), Abstained: true},
		{Stance: node.Silent, Err: errors.New("ERR something")},
	} {
		c.Add(&out)
	}
	for i, n := range []*atomic.Int64{&c.Yes, &c.Taken, &c.Lost, &c.Timeout, &c.Overloaded, &c.Quarantined, &c.Failed} {
		assert.EqualValues(t, 1, n.Load(), i)
	}
}
