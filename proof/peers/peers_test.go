package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// TestMain lets the test binary be a client's process.
func TestMain(m *testing.M) {
	locker.Libraries["broken"] = libraries.Library{Open: func(libraries.Opening) (libraries.Client, error) {
		return libraries.Client{NewWorker: func() libraries.Worker { return careless{} }}, nil
	}}
	if len(os.Args) > 2 && os.Args[1] == "-client" {
		main()
		return
	}
	os.Exit(m.Run())
}

// careless gives everybody a lock, and never says that it is over.
type careless struct{}

func (careless) Try(context.Context, string) error                 { return nil }
func (careless) Lock(context.Context, string, time.Duration) error { return nil }
func (careless) Until() time.Time                                  { return time.Time{} }
func (careless) Lost() <-chan struct{}                             { return nil }
func (careless) Unlock(context.Context) error                      { return nil }

// Without faults each library excludes, loses no update and leaves nothing behind, and the course sees it work.
func TestPeersWithoutFaults(t *testing.T) {
	for _, l := range peers {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if l.name == "node-redlock" {
				node.Require(t)
			}
			f, events := briefly(t, l)
			require.Greater(t, f.Locks, 5)
			require.Zero(t, f.Overlaps)
			require.Zero(t, f.LostUpdates)
			require.Zero(t, f.LeftInTheEnd)
			require.Zero(t, f.Hung)
			require.NotEmpty(t, f.Version)
			require.Empty(t, judge.Judge(events).Violations)
		})
	}
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		f, _ := briefly(t, peer{name: "broken", modules: []string{"none"}, command: inGo("broken")})
		require.Positive(t, f.Overlaps)
		require.Positive(t, f.LostUpdates)
	})
}

func briefly(t *testing.T, l peer) (Figures, []history.Event) {
	t.Helper()
	dir := t.TempDir()
	// redsync's limits are a twentieth of the ttl, and nothing may be late here. What it leaves when a context ends stays
	// for the whole ttl.
	patient := groups[0]
	patient.draw = func(f flags, g group) (*plan.Plan, error) {
		p, err := draw(f, g)
		p.TTL *= 2
		return p, err
	}
	f, err := play(flags{time: 3 * time.Second, seed: 1, out: dir}, l, patient)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	file, err := os.Open(files[0])
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	events, err := history.Parse(file)
	require.NoError(t, err)
	return f, events
}

// A story is a history in short: seconds, and one client and resource unless it says so.
type story struct{ events []history.Event }

func (s *story) add(at float64, e history.Event) *story {
	e.At = int64(at * float64(time.Second))
	if e.Client == "" {
		e.Client = "c1"
	}
	if e.Kind == history.Call || e.Kind == history.Return {
		e.Resources = []string{"a"}
	}
	s.events = append(s.events, e)
	return s
}

func (s *story) call(at float64, op string, n, lock int) *story {
	return s.add(at, history.Event{Kind: history.Call, Op: op, Call: n, Lock: lock})
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

func (s *story) tally(samples ...sample) Figures {
	return tally(s.events, samples, 3*time.Second, true)
}

// seen is a key that was looked at from one second to another.
func look(from, to float64, value string) (all []sample) {
	for at := from; at < to; at += sampleEvery.Seconds() {
		all = append(all, sample{at: int64(at * float64(time.Second)), resource: "a", value: value})
	}
	return all
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
	require.Equal(t, 1, failed().tally(look(1, 3, "x")...).OrphansFailed)
	require.Zero(t, failed().tally(look(1, 2, "x")...).OrphansFailed, "it was tidied up")
	require.Zero(t, failed().tally(look(1, 3, "y")...).OrphansFailed, "nobody knows whose it is")
	zero := 0
	down := history.Event{Kind: history.FaultBegin, Fault: plan.Hole, Node: &zero}
	require.Zero(t, failed().add(1, down).add(2.5, history.Event{Kind: history.FaultEnd, Fault: plan.Hole, Node: &zero}).
		tally(look(1, 3, "x")...).OrphansFailed, "the node could not be reached")
	held := func() *story {
		return new(story).call(1, "trylock", 1, 0).returns(1.1, "trylock", 1, 0, true, "w,x", 4)
	}
	require.Zero(t, held().tally(look(1, 4, "x")...).OrphansReleased)
	require.Equal(t, 1, held().call(1.2, "unlock", 2, 1).returns(1.3, "unlock", 2, 1, true, "", 0).
		tally(look(1, 4, "x")...).OrphansReleased)
	require.Zero(t, held().call(1.2, "unlock", 2, 1).add(1.3, history.Event{Kind: history.Down}).
		tally(look(1, 4, "x")...).OrphansReleased, "its process was killed")
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
	free := append(look(1, 2, "x"), look(2, 4, "")...)
	require.Equal(t, 1, *waits().tally(free...).NoWakeUp)
	require.Zero(t, *waits().tally(append(look(1, 3.5, "x"), look(3.5, 4, "")...)...).NoWakeUp)
	require.Zero(t, *waits().tally(append(look(1, 2, "x"), look(3.8, 4, "")...)...).NoWakeUp, "nobody looked")
	killed := new(story).call(1, "lock", 1, 0).add(2, history.Event{Kind: history.Down})
	require.Zero(t, *killed.tally(free...).NoWakeUp, "it was killed")
	down := history.Event{Kind: history.FaultBegin, Fault: plan.Rolling}
	require.Zero(t, *waits().add(2.5, down).tally(free...).NoWakeUp, "something was wrong")
}

func TestTallySeesLostUpdates(t *testing.T) {
	write := history.Event{Kind: history.Write, OK: true, Value: 1}
	value := history.Event{Kind: history.Register, Value: 1}
	require.Equal(t, 1, new(story).add(1, write).add(1, write).add(2, value).tally().LostUpdates)
	require.Zero(t, new(story).add(1, write).add(2, value).tally().LostUpdates)
	require.Equal(t, int64(math.MaxInt64), int64(never))
}
