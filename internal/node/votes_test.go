package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVotesAreCountedByWhatTheySay(t *testing.T) {
	var c Votes
	for _, out := range []Outcome{
		{Stance: Yes},
		{Stance: No, Err: errors.New("taken")},
		{Stance: Gone, Err: errors.New("lost")},
		{Stance: Silent, Err: ErrWithdrawn},
		{Stance: Silent, Err: fmt.Errorf("late: %w", ErrTimeout)},
		{Stance: Silent, Err: ErrOverloaded},
		{Stance: Silent, Err: errors.New("quarantined"), Abstained: true},
		{Stance: Silent, Err: errors.New("ERR something")},
	} {
		c.Add(&out)
	}
	assert.Equal(t, VoteCounts{Yes: 1, Taken: 1, Lost: 1, Timeout: 1, Overloaded: 1, Quarantined: 1, Failed: 1}, c.Counts())
}
