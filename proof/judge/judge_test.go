package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// What was not looked at has shown nothing, and a history that does not say what was run cannot be judged: it has no nodes,
// and no slack.
func TestWhatNobodyLookedAtIsSaid(t *testing.T) {
	require.Equal(t, []string{"complete"}, Judge(newStory().told()[1:]).Named(Broken))
	s := newStory()
	s.header.Without = []string{"waiters"}
	v := Judge(s.told())
	require.Equal(t, []string{"waiters"}, v.Named(LeftOut))
	require.True(t, v.OK())
	require.Contains(t, v.Named(Nothing), "overlap")
	require.Equal(t, Nothing, v.Rule("overlap").State)
	require.Contains(t, v.String(), "nothing is shown")
	require.Equal(t, LeftOut, v.Rule("overlaps").State)
}

// A library without fences, whose locks say not when they end, can still be judged.
func TestOtherLibraries(t *testing.T) {
	s := newStory()
	s.header.Library, s.header.Fences = "other", false
	one := s.ask("c1", 0, "a") // Held for its ttl.
	s.back("c1", one, 5, history.Event{OK: true})
	s.section("c1", one, "a", 10, 0)
	two := s.ask("c2", 1000, "a") // Kept, until its process stands still.
	s.back("c2", two, 1005, history.Event{OK: true})
	s.keep("c2", two, 1006)
	s.operate(history.Read, "c2", two, "a", 1010, 1011, 1, true)
	s.freeze("c2", 5000, 8000)
	s.lock("c3", 6000, 6005, 0, "a")
	three := s.ask("c4", 9000, "a") // Kept, until its process dies.
	s.back("c4", three, 9005, history.Event{OK: true})
	s.keep("c4", three, 9006)
	s.dies("c4", 20_000)
	s.lock("c3", 21_000, 21_005, 0, "a")
	v := s.breaks(t)
	require.Equal(t, []string{"fence order"}, v.Named(LeftOut))

	s.section("c3", 1, "a", 6010, 1)
	s.operate(history.Write, "c2", two, "a", 8001, 8002, 2, true) // Nothing guards against it.
	s.breaks(t)

	s.lock("c1", 2000, 2005, 0, "a")
	s.breaks(t, "overlap")
}

// Clients of other libraries on the same locks: only what they have at the same time as ours counts.
func TestGuests(t *testing.T) {
	s := newStory()
	s.header.Guests = []string{"g1", "g2"}
	s.lock("g1", 0, 5, 0, "a")
	s.lock("g2", 10, 15, 0, "a") // Between them.
	n := s.lock("c1", 1010, 1015, 1, "a")
	s.unlock("c1", n, 1020, 1025)
	s.keep("g1", s.lock("g1", 1030, 1035, 0, "a"), 1036)
	s.dies("g2", 1040)
	require.Equal(t, 3, s.breaks(t).Rule("overlap").Facts)
	s.lock("c1", 1100, 1105, 2, "a")
	s.breaks(t, "overlap")
}

// Only what nobody did to a process is a stall, and its successor has not stalled.
func TestStallsAreCounted(t *testing.T) {
	s := newStory()
	for client, at := range map[string]int64{"c1": 0, "c2": 0, "c1.2": 20_000} {
		s.add(history.Event{At: ms(at), Kind: history.Up, Client: client})
	}
	s.stall("c1", 1000, 1200)
	s.stall("c1", 1200, 1400)
	s.freeze("c1", 5000, 6000)
	s.stall("c1", 4980, 6030) // It finds that it was frozen.
	s.dies("c1", 10_000)
	s.stall("c2", 3000, 3500)
	v := s.breaks(t)
	require.Equal(t, Stalls{Count: 2, Time: ms(400 + 50 + 500), Lived: ms(10_000 + 60_000 + 40_000)}, v.Stalls)
	require.Contains(t, v.String(), "stalls of processes: 2, 950ms of 1m50s in all")
	v = newStory().breaks(t)
	require.Zero(t, v.Stalls)
	require.NotContains(t, v.String(), "stalls")
}
