package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

func TestAgreement(t *testing.T) {
	for _, tc := range []struct {
		fences         []int64
		fence          int64
		exact, granted int
	}{
		{nil, 0, 0, 0},
		{[]int64{0, 0, 0}, 0, 0, 0},
		{[]int64{7, 7, 7}, 7, 3, 3},
		{[]int64{0, 7, 7}, 7, 2, 2},
		{[]int64{8, 7, 8, 0, 1}, 8, 2, 4},
		{[]int64{7, 9, 7}, 7, 2, 3}, // A quorum has said 7: it need not be the largest.
		{[]int64{9, 7, 7, 8, 0}, 7, 2, 4},
		{[]int64{9, 1, 0}, 9, 1, 2},
	} {
		fence, exact, granted := Agreed(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
}

// fencedRound is a round with fencing of so many nodes, with an hour to go.
func fencedRound(now time.Time, nodes int) *Round {
	c := &Config{Need: Need(nodes), Clock: func(now time.Time) (time.Time, time.Duration) { return now, 0 }}
	r := &Round{Config: c, Kind: Locking, Start: now, Validity: time.Hour, Patience: time.Hour}
	r.Ballots, r.Fencing = make([]Ballot, nodes), NewFencing(nodes)
	return r
}

// told has node i, which was asked, grant the lock or raise its counter, and say what that was before.
func (r *Round) told(t *testing.T, i int, counter, found int64) (all Effect) {
	t.Helper()
	require.True(t, r.Asked(i))
	for e := r.Vote(i, &node.Outcome{Stance: node.Yes, Fence: counter, Found: found}, r.Start); ; e = r.Next(r.Start) {
		if all |= e; !e.Has(More) {
			return all &^ More
		}
	}
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its node.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 3)
	r.Begin(now, time.Second)
	r.told(t, 0, 9, 0)
	assert.True(t, r.told(t, 1, 9, 0).Has(Done))
	assert.EqualValues(t, 9, r.Fencing.Fence)
	assert.Equal(t, Counted|Settled, r.told(t, 2, 5, 0))
	assert.False(t, r.Asked(2))
	require.NoError(t, r.Ballots[2].Err)
}

// All numbers that counted nodes have not found, up to the fence, are the lock's.
func TestBlock(t *testing.T) {
	type answer struct {
		node           int
		counter, found int64
	}
	for _, tc := range []struct {
		name    string
		answers []answer
		fence   int64
		below   int64
	}{
		{"what all have found", []answer{{0, 90, 7}, {1, 90, 7}}, 90, 7},
		{"the largest that was found", []answer{{0, 90, 7}, {1, 90, 50}}, 90, 50},
		{"in whatever order", []answer{{1, 90, 50}, {0, 90, 7}}, 90, 50},
		{"a raise keeps what the grant has found", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 10}}, 90, 8},
		{"others between the grant and the raise", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 12}}, 90, 89},
		{"a raise that does not know", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 0}}, 90, 89},
		{"a repeated request", []answer{{0, 90, 7}, {1, 90, 0}}, 90, 89},
		{"a raise after a repeated request", []answer{{0, 10, 0}, {1, 90, 8}, {0, 90, 10}}, 90, 9},
		{"no counter", []answer{{0, 1, 0}, {1, 1, 0}}, 1, 0},
		{"a late grant is raised", []answer{{0, 10, 7}, {1, 90, 8}, {2, 20, 9}, {2, 90, 20}}, 90, 9},
		{"others between a late grant and its raise", []answer{{0, 10, 7}, {1, 90, 8}, {2, 20, 9}, {2, 90, 22}}, 90, 89},
		{"a node that does not count", []answer{{0, 10, 7}, {1, 90, 8}, {2, 95, 94}, {0, 90, 10}}, 90, 8},
		{"what comes late changes nothing", []answer{{0, 90, 7}, {1, 90, 9}, {2, 90, 50}}, 90, 9},
		{"a lie", []answer{{0, 90, 7}, {1, 90, 90}}, 90, 89},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			r := fencedRound(now, 3)
			r.Fencing.OwnBlock()
			r.Begin(now, time.Hour)
			for _, a := range tc.answers {
				r.told(t, a.node, a.counter, a.found)
			}
			require.Equal(t, Granted, r.Verdict)
			assert.Equal(t, tc.fence, r.Fencing.Fence)
			assert.Equal(t, tc.below, r.Fencing.Below)
		})
	}
}

// A second raise begins where the first one has left the counters.
func TestBlockOfTwoRaises(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 5)
	r.Fencing.OwnBlock()
	r.Begin(now, time.Hour)
	r.told(t, 0, 10, 7)
	r.told(t, 1, 20, 8)
	assert.True(t, r.told(t, 2, 30, 9).Has(Raised|Ask))
	r.told(t, 0, 30, 10)
	r.told(t, 3, 95, 40) // Above the fence: it counts in the second raise.
	require.True(t, r.Asked(1))
	r.Vote(1, &node.Outcome{Stance: node.No}, now)
	require.True(t, r.Asked(4))
	assert.True(t, r.Vote(4, &node.Outcome{Stance: node.No}, now).Has(Decided|More))
	assert.True(t, r.Next(now).Has(Ask))
	r.told(t, 0, 95, 30)
	assert.True(t, r.told(t, 2, 95, 30).Has(Done))
	assert.Equal(t, Granted, r.Verdict)
	assert.EqualValues(t, 95, r.Fencing.Fence)
	assert.EqualValues(t, 40, r.Fencing.Below)
}

// Without OwnBlock the fence is all that is the lock's, whatever nodes say.
func TestBlockIsAskedFor(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 1)
	r.Begin(now, time.Hour)
	r.told(t, 0, 90, 7)
	assert.EqualValues(t, 89, r.Fencing.Below)
}

// turnOf is the turn of a lock of one node whose counter was found, and is the fence now.
func turnOf(t *testing.T, now time.Time, length time.Duration, fence, found int64) (*Round, Turn) {
	t.Helper()
	r := fencedRound(now, 1)
	r.Fencing.OwnBlock()
	r.Begin(now, time.Hour)
	require.True(t, r.told(t, 0, fence, found).Has(Done))
	return r, r.NewTurn(length, now)
}

// take takes so many fences of a turn.
func (t *Turn) take(n int) (all []int64) {
	for range n {
		all = append(all, t.Fence())
	}
	return all
}

func TestTurnTakesItsNumbersFromTheSmallestUp(t *testing.T) {
	now := time.Now()
	_, turn := turnOf(t, now, time.Millisecond, 90, 87)
	assert.Equal(t, []int64{88, 89, 90, 0, 0}, turn.take(5))
	_, turn = turnOf(t, now, time.Millisecond, 1, 0)
	assert.Equal(t, []int64{1, 0}, turn.take(2))
}

// However far below the counter was, a turn begins no more numbers below its fence than it has microseconds.
func TestTurnHasANumberForEachMicrosecond(t *testing.T) {
	now := time.Now()
	_, turn := turnOf(t, now, 4*time.Microsecond, 1000, 7)
	assert.Equal(t, []int64{997, 998, 999, 1000, 0}, turn.take(5))
	_, turn = turnOf(t, now, time.Nanosecond, 1000, 7)
	assert.Equal(t, []int64{1000, 0}, turn.take(2))
}

func TestTurnWithoutFencingHasNoNumbers(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 1)
	r.Fencing = nil
	turn := r.NewTurn(time.Second, now)
	l := r.Got()
	l.Unlock(now)
	for range 3 {
		assert.Zero(t, turn.Fence())
		assert.True(t, l.MayPass(&turn, time.Hour, 0, now))
	}
}

// A passing is a lock that may be passed on, when it is released, by clocks with this lead.
type passing struct {
	Lease
	turn                     Turn
	after, lead              time.Duration // since the start
	left, validity, stopTime time.Duration
}

func TestMayPass(t *testing.T) {
	start := time.Now()
	const hour, minute, length = time.Hour, time.Minute, 10 * time.Minute
	for _, tc := range []struct {
		name string
		do   func(p *passing)
		may  bool
	}{
		{"at once", func(*passing) {}, true},
		{"with nine tenths left", func(p *passing) { p.left = hour * 9 / 10 }, true},
		{"with less", func(p *passing) { p.left = hour*9/10 - 1 }, false},
		{"at the end of the turn", func(p *passing) { p.after, p.left = length, 2*hour }, false},
		{"just before", func(p *passing) { p.after, p.left = length-1, 2*hour }, true},
		{"when the machine has slept through the turn", func(p *passing) { p.lead, p.left = length, 2*hour }, false},
		{"when it has slept a little", func(p *passing) { p.lead, p.left = length-1, 2*hour }, true},
		{"with one number left", func(p *passing) { p.turn.take(2) }, true},
		{"with none", func(p *passing) { p.turn.take(3) }, false},
		// Of what is left to a caller's work, it gets nine tenths, too.
		{"with a stop time", func(p *passing) { p.stopTime, p.left = 50*minute, 59*minute }, true},
		{"with a stop time, and less", func(p *passing) { p.stopTime, p.left = 50*minute, 59*minute-1 }, false},
		// No validity that was asked for is so short that a lock is passed on which has ended.
		{"of next to nothing", func(p *passing) { p.validity, p.left, p.after = 1, time.Second, time.Second-1 }, true},
		{"of nothing", func(p *passing) { p.validity, p.left, p.after = 1, time.Second, time.Second }, false},
		{"that had expired", func(p *passing) { p.Check(start.Add(2 * hour)) }, false}, // Even if it were not so any more.
		{"that was lost", func(p *passing) { p.Lose(start) }, false},
		{"whose release is repeated", func(p *passing) {
			p.Unlock(start)
			p.Unlocked(NoQuorum)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, turn := turnOf(t, start, length, 90, 87)
			p := &passing{Lease: r.Got(), turn: turn, validity: hour, left: hour}
			r.Clock = func(now time.Time) (time.Time, time.Duration) { return now, p.lead }
			tc.do(p)
			p.Until = NewDeadline(start, p.left, 0)
			at := start.Add(p.after)
			p.Unlock(at)
			assert.Equal(t, tc.may, p.MayPass(&p.turn, p.validity, p.stopTime, at))
		})
	}
}

// Whom a lock is passed on to has a lease of its own, that ends when the nodes' keys do. The one before stays over.
func TestPass(t *testing.T) {
	now := time.Now()
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	before := r.Got()
	extended := now.Add(time.Second)
	before.Extended, before.Until = extended, NewDeadline(now, 2*time.Hour, 0)
	_, may := before.MayRepair(0, 1, now)
	require.True(t, may)

	at := now.Add(time.Minute)
	before.Unlock(at)
	l := before.Pass(at)
	assert.Equal(t, at, l.Start)
	assert.Equal(t, extended, l.Extended)
	assert.Equal(t, before.Until, l.Until)
	assert.Equal(t, Undecided, l.Check(at))
	assert.Equal(t, Held, l.Release)
	assert.Equal(t, Lost, before.Check(at))
	assert.Equal(t, time.Minute, before.Lasted)
	assert.Equal(t, time.Second, l.HeldFor(at.Add(time.Second)))

	_, again := l.MayRepair(0, 1, at)
	assert.False(t, again, "a repair is under way")
	before.Repaired(0) // It has no more to do with it.
	l.Repaired(0)
	_, again = l.MayRepair(0, 1, at)
	assert.True(t, again)
}

func TestLose(t *testing.T) {
	now := time.Now()
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	l := r.Got()
	l.Lose(now.Add(time.Second))
	assert.Equal(t, Lost, l.Check(now))
	assert.Equal(t, time.Second, l.Lasted)
	l = r.Got()
	l.Check(now.Add(2 * time.Hour))
	l.Lose(now.Add(3 * time.Hour))
	assert.Equal(t, Expired, l.Ended, "it had ended before")
	assert.Equal(t, time.Hour, l.Lasted)
}

// A claim that has won its contest, and is given up while nodes raise their counters, says nothing of who had the lock
// before: these have given way.
func TestAWonContestIsNotTold(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 3)
	r.Random = func(d time.Duration) time.Duration { return 0 }
	r.Digest = func(string) string { return "a" }
	r.Reserved = errors.New("reserved")
	r.Takes = func(int) time.Duration { return 0 }
	r.Patience = time.Second
	r.Begin(now, time.Second)
	for i := range 3 {
		require.True(t, r.Asked(i))
	}
	vote := func(i int, o node.Outcome) {
		for e := r.Vote(i, &o, now); e.Has(More); {
			e = r.Next(now)
		}
	}
	vote(0, node.Outcome{Stance: node.Yes, Fence: 5})
	vote(1, node.Outcome{Stance: node.No, Holder: &node.Holder{Digest: "b"}})
	vote(2, node.Outcome{Stance: node.No, Holder: &node.Holder{Digest: "c"}})
	require.Equal(t, Asking, r.Stage, "it leads, and asks again")
	for i := range 3 {
		r.Asked(i)
	}
	vote(1, node.Outcome{Stance: node.Yes, Fence: 7})
	vote(2, node.Outcome{Stance: node.Yes, Fence: 6})
	require.True(t, r.IsRaising())
	r.GiveUp()
	require.Equal(t, NoQuorum, r.Amounts())
	require.Zero(t, count(r.Telling()).no)
}
