package judge_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/trace"
)

// A story is a history in short: seconds, and one client and resource unless it says so.
type story struct{ events []history.Event }

func (s *story) add(at float64, e history.Event) *story {
	e.At = int64(at * float64(time.Second))
	if e.Client == "" {
		e.Client = "c1"
	}
	e.Resources = []string{"a"}
	s.events = append(s.events, e)
	return s
}

func (s *story) call(at float64, op string, n, lock int) *story {
	return s.add(at, history.Event{Kind: history.Call, Op: op, Call: n, Lock: lock, TTL: int64(3 * time.Second)})
}

func (s *story) returns(at float64, op string, n, lock int, ok bool, token string, until float64) *story {
	return s.add(at, history.Event{
		Kind: history.Return, Op: op, Call: n, Lock: lock, OK: ok, Token: token, Until: int64(until * float64(time.Second)),
	})
}

func (s *story) of(client string) *story {
	s.events[len(s.events)-1].Client = client
	return s
}

// tally counts it. The node was seen all the time.
func (s *story) tally(seen ...history.Event) judge.Tally {
	all := append([]history.Event{{Kind: history.Run, Run: &history.Header{Nodes: 1}}, {Kind: history.Step, Op: history.StepWatch, Node: new(int)}}, s.events...)
	return judge.Count(slices.SortedStableFunc(slices.Values(append(all, seen...)), func(a, b history.Event) int { return cmp.Compare(a.At, b.At) }), true)
}

// has is a value that a node has from one second to another.
func has(from, to float64, value string) []history.Event {
	step := func(at float64, op string) history.Event {
		t := int64(at * float64(time.Second))
		return history.Event{At: t, From: t, Kind: history.Step, Op: op, Node: new(int), Resources: []string{"a"}, Holder: trace.Digest(value)}
	}
	return []history.Event{step(from, history.StepGrant), step(to, history.StepRelease)}
}

func TestTallySeesOverlaps(t *testing.T) {
	two := func(until float64) *story {
		return new(story).
			call(1, "trylock", 1, 0).returns(1.1, "trylock", 1, 0, true, "x", until).
			call(2, "trylock", 1, 0).of("c2").returns(2.1, "trylock", 1, 0, true, "y", 5).of("c2")
	}
	require.Zero(t, two(2).add(6, history.Event{Kind: history.End}).tally().Overlaps)
	f := two(3.1).add(6, history.Event{Kind: history.End}).tally()
	require.Equal(t, 1, f.Overlaps)
	require.Equal(t, int64(1000), f.LongestOverlap)
	// A release that is asked for, and a loss that is signalled, end a lock.
	s := two(3)
	s.events = append(new(story).call(0, "x", 0, 0).events, s.events...)
	require.Zero(t, s.call(1.5, "unlock", 2, 1).add(6, history.Event{Kind: history.End}).tally().Overlaps)
	// What has no validity is held until its signal, but a frozen process cannot be told.
	frozen := history.Event{Kind: history.FaultBegin, Fault: history.Freeze}
	s = two(0).add(0.5, history.Event{Kind: history.Up})
	require.Equal(t, 1, s.add(6, history.Event{Kind: history.End}).tally().Overlaps)
	s = two(0).add(1.5, frozen)
	frozen.Kind = history.FaultEnd
	s = s.add(5.5, frozen).add(5.6, history.Event{Kind: history.Lost, Lock: 1}).add(6, history.Event{Kind: history.End})
	require.Zero(t, s.tally().Overlaps)
}

func TestTallySeesKeysThatAreLeft(t *testing.T) {
	failed := func() *story {
		return new(story).call(1, "trylock", 1, 0).returns(1.1, "trylock", 1, 0, false, "x", 0)
	}
	require.Equal(t, 1, failed().tally(has(1, 3, "x")...).OrphansFailed)
	require.Zero(t, failed().tally(has(1, 2, "x")...).OrphansFailed, "it was tidied up")
	require.Zero(t, failed().tally(has(1, 3, "y")...).OrphansFailed, "nobody knows whose it is")
	zero := 0
	down := history.Event{Kind: history.FaultBegin, Fault: "hole", Node: &zero}
	require.Zero(t, failed().add(1, down).add(2.5, history.Event{Kind: history.FaultEnd, Fault: "hole", Node: &zero}).
		tally(has(1, 3, "x")...).OrphansFailed, "the node could not be reached")
	held := func() *story {
		return new(story).call(1, "trylock", 1, 0).returns(1.1, "trylock", 1, 0, true, "w,x", 4)
	}
	require.Zero(t, held().tally(has(1, 4, "x")...).OrphansReleased)
	require.Equal(t, 1, held().call(1.2, "unlock", 2, 1).returns(1.3, "unlock", 2, 1, true, "", 0).
		tally(has(1, 4, "x")...).OrphansReleased)
	require.Zero(t, held().call(1.2, "unlock", 2, 1).add(1.3, history.Event{Kind: history.Down}).
		tally(has(1, 4, "x")...).OrphansReleased, "its process was killed")
}

func TestTallySeesSlowCalls(t *testing.T) {
	f := new(story).call(1, "unlock", 1, 0).returns(2.5, "unlock", 1, 0, true, "", 0).tally()
	require.Equal(t, []int{1, 0}, []int{f.Slow, f.Hung})
	waits := history.Event{Kind: history.Call, Op: history.OpLock, Call: 1, Bound: int64(4 * time.Second)}
	f = new(story).add(1, waits).returns(4.5, "lock", 1, 0, false, "", 0).tally()
	require.Equal(t, []int{0, 0}, []int{f.Slow, f.Hung}, "it was told to wait")
	f = new(story).call(1, "unlock", 1, 0).add(20, history.Event{Kind: history.End}).tally()
	require.Equal(t, []int{1, 1}, []int{f.Slow, f.Hung}, "it never came back")
	f = new(story).call(1, "unlock", 1, 0).add(2, history.Event{Kind: history.Down}).add(20, history.Event{Kind: history.End}).tally()
	require.Equal(t, []int{0, 0}, []int{f.Slow, f.Hung}, "it was killed")
	frozen := history.Event{Kind: history.FaultBegin, Fault: history.Freeze}
	thawed := history.Event{Kind: history.FaultEnd, Fault: history.Freeze}
	f = new(story).call(1, "unlock", 1, 0).add(1.1, frozen).add(2.6, thawed).returns(2.7, "unlock", 1, 0, true, "", 0).tally()
	require.Zero(t, f.Slow, "it was frozen")
}

func TestTallySeesLostWakeUps(t *testing.T) {
	waits := func() *story {
		return new(story).call(1, "lock", 1, 0).returns(4, "lock", 1, 0, false, "", 0)
	}
	free := has(1, 2, "x")
	require.Equal(t, 1, *waits().tally(free...).NoWakeUp)
	require.Zero(t, *waits().tally(has(1, 3.5, "x")...).NoWakeUp)
	killed := new(story).call(1, "lock", 1, 0).add(2, history.Event{Kind: history.Down})
	require.Zero(t, *killed.tally(free...).NoWakeUp, "it was killed")
	down := history.Event{Kind: history.FaultBegin, Fault: "rolling"}
	require.Zero(t, *waits().add(2.5, down).tally(free...).NoWakeUp, "something was wrong")
}

func TestTallySeesLostUpdates(t *testing.T) {
	write := history.Event{Kind: history.Write, OK: true, Value: 1}
	value := history.Event{Kind: history.Register, Value: 1}
	require.Equal(t, 1, new(story).add(1, write).add(1, write).add(2, value).tally().LostUpdates)
	require.Zero(t, new(story).add(1, write).add(2, value).tally().LostUpdates)
}
