package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toldOfVotes is an observer of what is told about votes.
type toldOfVotes struct {
	settled

	said []string
}

func (o *toldOfVotes) Up()                    { o.said = append(o.said, "up") }
func (o *toldOfVotes) Unresponsive(why error) { o.said = append(o.said, why.Error()) }

func TestResponsiveIsANodeByItsVotes(t *testing.T) {
	late, yes, refused := Outcome{Err: ErrTimeout}, Outcome{Stance: Yes}, Outcome{Err: errors.New("OOM no memory")}
	for name, test := range map[string]struct {
		votes []Outcome // one a second
		want  []string
	}{
		"late":              {[]Outcome{late, late, late}, nil},
		"late for 3 s":      {[]Outcome{late, late, late, late, late}, []string{"no vote in time for 3s (last: redlock: node timeout)"}},
		"refused":           {[]Outcome{late, late, late, refused}, []string{"no vote in time for 3s (last: OOM no memory)"}},
		"silent":            {[]Outcome{late, late, late, {Err: ErrSilent}}, []string{"no vote in time for 3s (last: the node has not answered earlier requests)"}},
		"a yes":             {[]Outcome{late, late, late, yes, late, late, late}, nil},
		"a no":              {[]Outcome{late, late, late, {Stance: No}, late, late, late}, nil},
		"a loss":            {[]Outcome{late, late, late, {Stance: Gone}, late, late, late}, nil},
		"quarantine":        {[]Outcome{late, late, late, {Abstained: true, Err: errors.New("quarantined")}, late, late, late}, nil},
		"late, then a yes":  {[]Outcome{late, late, late, late, yes, yes}, []string{"no vote in time for 3s (last: redlock: node timeout)", "up"}},
		"not asked":         {[]Outcome{{Err: ErrOverloaded}, {Err: errTooManyUnanswered}, {Err: ErrWithdrawn}, {Err: ErrClosed}, {Err: ErrBacklog}, {Err: ErrUnreached}}, nil},
		"not asked between": {[]Outcome{late, {Err: ErrOverloaded}, late, late}, []string{"no vote in time for 3s (last: redlock: node timeout)"}},
		"not asked at last": {[]Outcome{late, late, late, {Err: fmt.Errorf("why: %w", ErrOverloaded)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told toldOfVotes
				n := &Node{Config: Config{Observer: &told, Timeout: time.Second}, epoch: time.Now(), state: nodeUp}
				for _, out := range test.votes {
					n.Voted(&out, time.Now())
					time.Sleep(time.Second)
				}
				assert.Equal(t, test.want, told.said)
			})
		})
	}
}

// A round trip is worth telling where it is the reason.
func TestResponsiveSaysWhatARequestTakes(t *testing.T) {
	n := &Node{Config: Config{Timeout: time.Second}, rtt: roundTrip{smoothed: 400 * time.Millisecond}}
	now := time.Now()
	require.NoError(t, n.unresponsive(now))
	n.misses.reported, n.misses.since, n.misses.last = true, now.Add(-41*time.Second), ErrTimeout
	require.EqualError(t, n.unresponsive(now), "no vote in time for 41s (last: redlock: node timeout)")
	n.rtt.smoothed *= 2
	require.EqualError(t, n.unresponsive(now), "no vote in time for 41s (last: redlock: node timeout); a request takes 800ms")
	require.ErrorIs(t, n.unresponsive(now), ErrTimeout)
}
