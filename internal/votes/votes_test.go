package votes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

func TestVotesAreCountedByWhatTheySay(t *testing.T) {
	var c Counters
	for _, out := range []node.Outcome{
		{Stance: node.Yes},
		{Stance: node.No, Err: errors.New("taken")},
		{Stance: node.Gone, Err: errors.New("lost")},
		{Stance: node.Silent, Err: node.ErrWithdrawn},
		{Stance: node.Silent, Err: fmt.Errorf("late: %w", node.ErrTimeout)},
		{Stance: node.Silent, Err: node.ErrOverloaded},
		{Stance: node.Silent, Err: quarantine.ErrQuarantined},
		{Stance: node.Silent, Err: quarantine.ErrConfigMismatch},
		{Stance: node.Silent, Err: errors.New("ERR something")},
	} {
		c.Count(&out)
	}
	assert.Equal(t, Counts{Yes: 1, Taken: 1, Lost: 1, Timeout: 1, Overloaded: 1, Quarantined: 2, Failed: 1}, c.Counts())
}
