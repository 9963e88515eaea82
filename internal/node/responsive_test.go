package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// code is that of an error's text.
func code(err error) string {
	if err == nil {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

func TestResponsiveIsANodeByItsVotes(t *testing.T) {
	late, yes, no, refused := Outcome{Err: ErrTimeout}, Outcome{Stance: Yes}, Outcome{Stance: No}, Outcome{Err: errors.New("OOM no memory")}
	abstains := Outcome{Abstained: true, Err: errors.New("quarantined")}
	const lateFor3s = "no vote in time for 3s (last: redlock: node timeout)"
	for name, test := range map[string]struct {
		votes []Outcome // one a second
		tried bool      // they are of writes that were tried
		want  []string
	}{
		"late":                     {[]Outcome{late, late, late}, false, nil},
		"two, 3 s apart":           {[]Outcome{late, {Err: ErrOverloaded}, {Err: ErrOverloaded}, late}, false, nil},
		"late for 3 s":             {[]Outcome{late, late, late, late, late}, false, []string{lateFor3s}},
		"refused":                  {[]Outcome{late, late, late, refused}, false, []string{"no vote in time for 3s (last: OOM no memory)"}},
		"silent":                   {[]Outcome{late, late, late, {Err: ErrSilent}}, false, []string{"no vote in time for 3s (last: the node has not answered earlier requests)"}},
		"a yes":                    {[]Outcome{late, late, late, yes, late, late, late}, false, nil},
		"a no":                     {[]Outcome{late, late, late, {Stance: No}, late, late, late}, false, nil},
		"a loss":                   {[]Outcome{late, late, late, {Stance: Gone}, late, late, late}, false, nil},
		"quarantine":               {[]Outcome{late, late, late, {Abstained: true, Err: errors.New("quarantined")}, late, late, late}, false, nil},
		"late, then a yes":         {[]Outcome{late, late, late, late, yes, yes, yes}, false, []string{lateFor3s}},
		"late, then yes":           {[]Outcome{late, late, late, late, yes, yes, yes, yes, yes}, false, []string{lateFor3s, "up"}},
		"late, but for a yes":      {[]Outcome{late, late, late, late, yes, yes, yes, late, yes, yes, yes}, false, []string{lateFor3s}},
		"refused, then a no":       {[]Outcome{late, refused, late, no, late, late, late}, false, []string{"no vote in time for 4s (last: redlock: node timeout)"}},
		"refused, then a loss":     {[]Outcome{late, refused, {Stance: Gone}, late, late}, false, []string{lateFor3s}},
		"refused, then no write":   {[]Outcome{late, refused, yes, late, late}, false, []string{lateFor3s}},
		"refused, then quarantine": {[]Outcome{late, refused, abstains, late, late}, false, []string{lateFor3s}},
		"refused, then a write":    {[]Outcome{late, refused, yes, late, late}, true, nil},
		"for ever refused":         {[]Outcome{late, refused, late, late, yes, yes, yes, yes, yes}, false, []string{lateFor3s}},
		"refused, then writes":     {[]Outcome{late, refused, late, late, yes, yes, yes, yes}, true, []string{lateFor3s, "up"}},
		"not asked":                {[]Outcome{{Err: ErrOverloaded}, {Err: errTooManyUnanswered}, {Err: ErrWithdrawn}, {Err: ErrClosed}, {Err: ErrBacklog}, {Err: ErrUnreached}}, false, nil},
		"not asked between":        {[]Outcome{late, {Err: ErrOverloaded}, late, late}, false, []string{lateFor3s}},
		"not asked at last":        {[]Outcome{late, late, late, {Err: fmt.Errorf("why: %w", ErrOverloaded)}}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				n := &Node{Config: Config{Timeout: time.Second, Code: code}, state: Up}
				for _, out := range test.votes {
					if test.tried || out.Stance != Silent || !n.IsOwn(out.Err) {
						n.hear(&out, test.tried, time.Now())
					}
					for _, f := range n.Facts() {
						switch f.What {
						case Well:
							said = append(said, "up")
						default:
							said = append(said, f.Why.Error())
						}
					}
					time.Sleep(time.Second)
				}
				assert.Equal(t, test.want, said)
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
