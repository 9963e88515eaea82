package link

import (
	"errors"
	"fmt"
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
	assert.Equal(t, VoteCounts{Yes: 1, Taken: 1, Lost: 1, Timeout: 1, Overloaded: 1, Quarantined: 1, Failed: 1}, c.Counts())
}
