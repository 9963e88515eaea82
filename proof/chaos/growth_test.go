package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// sampled is a run in which one figure grows in one of three processes, and the others are noise.
func sampled(grown string) (events []history.Event) {
	for tick := range 100 {
		for teller := range 3 {
			e := history.Event{At: int64(tick) * int64(time.Minute), Kind: history.Sample, Value: int64(tick), Figures: map[string]float64{}}
			for _, f := range figures {
				e.Figures[f.name] = 20 + float64(tick%3)/10
				if f.name == grown && teller == 1 {
					e.Figures[f.name] += 2 * float64(tick)
				}
			}
			if tick%7 > 0 || teller > 0 { // One does not always tell.
				events = append(events, e)
			}
		}
	}
	return events
}

// Each figure that grows must be seen, by itself, and noise must not.
func TestWhatGrowsIsSeen(t *testing.T) {
	require.ErrorIs(t, concludeSoak(sampled("")), errIdle, "nobody locked")
	for _, name := range append([]string{"nothing"}, "memory", "heap", "goroutines", "connections", "server-keys", "server-memory") {
		for _, f := range figures {
			text, grown := f.grown(seriesOf(f.name, sampled(name)))
			require.Equal(t, f.name == name, grown, text)
		}
	}
	_, grown := figures[0].grown(nil)
	require.True(t, grown, "what nobody knows is not flat")
	s := seriesOf("heap", sampled(""))
	require.Len(t, s, 85, "a sum that lacks somebody is none")
	require.InDelta(t, 60, s[0], 1)
}
