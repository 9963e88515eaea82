package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

const (
	patience = 100 * time.Millisecond
	trip     = time.Millisecond
)

var errReserved = fmt.Errorf("reserved")

// A play is a round, and what time it is.
type play struct {
	*Round

	t   *testing.T
	now time.Time
}

// playing returns a round that nodes have just been asked in.
func playing(t *testing.T, nodes int, kind Kind) *play {
	t.Helper()
	p := begun(nodes, kind)
	p.t = t
	return p
}

func begun(nodes int, kind Kind) *play {
	now := time.Now()
	c := &Config{
		Need: Need(nodes), Clock: func(now time.Time) (time.Time, time.Duration) { return now, 0 },
		Takes: func(int) time.Duration { return 0 }, Random: func(d time.Duration) time.Duration { return d / 2 },
		Digest:   func(token string) string { return token },
		Reserved: errReserved, Pending: fmt.Errorf("pending"), TooLate: fmt.Errorf("too late"),
	}
	r := &Round{Config: c, Kind: kind, Start: now, Patience: patience, Token: "token", Ballots: make([]Ballot, nodes)}
	if kind == Locking || kind == Extending {
		r.Validity = time.Second
	}
	p := &play{Round: r, now: now}
	r.Begin(now, patience)
	return p
}

// asks returns the nodes that are to be asked.
func (p *play) asks() (nodes []int) {
	for i := range p.Ballots {
		if p.Asked(i) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// yes is a grant with a counter, and no a refusal because of a holder.
func yes(counter int64) node.Outcome { return node.Outcome{Stance: node.Yes, Fence: counter} }

func no(holder string) node.Outcome {
	return node.Outcome{Stance: node.No, Err: fmt.Errorf("taken"), Holder: &node.Holder{Digest: holder}}
}

// votes has nodes answer, from the first on, a round trip later; nil: it does not.
func (p *play) votes(outs ...*node.Outcome) (all Effect) {
	p.now = p.now.Add(trip)
	for i, out := range outs {
		if out != nil {
			all |= p.follow(p.Vote(i, out, p.now))
		}
	}
	return all
}

// follow goes on after a question that was decided.
func (p *play) follow(e Effect) Effect {
	for all := e; ; all |= e {
		if !e.Has(More) {
			return all &^ More
		}
		e = p.Next(p.now)
	}
}

// tick has time go on to when the timer is due.
func (p *play) tick() Effect {
	p.t.Helper()
	due, any := p.Due()
	require.True(p.t, any)
	p.now = p.Start.Add(due)
	return p.follow(p.Tick(p.now))
}

// silent has the time for answers be over.
func (p *play) silent() (all Effect) {
	p.t.Helper()
	require.Equal(p.t, Overdue, p.tick())
	question := p.Question
	for i := range p.Ballots {
		all |= p.follow(p.Miss(i, question, p.Silence(p.now), p.now))
	}
	return all
}

func to[T any](v T) *T { return &v }

// The time limit of the first requests is not that of later ones, nor that of a vote that is
// still out: whatever comes before the later limit counts. A node is asked once at a time.
func TestVotesThatAreOutWhenOthersAreAskedAgainCount(t *testing.T) {
	p := playing(t, 5, Locking)
	until := p.Until()
	assert.Equal(t, []int{0, 1, 2, 3, 4}, p.asks())
	assert.Equal(t, Counted|Decided, p.votes(to(no("~a")), to(no("~b")), to(no("~c")), to(yes(0)))&^Split)
	assert.Equal(t, Taken, p.Latest)
	require.Equal(t, Gathering, p.Stage)
	assert.Equal(t, Split|Ask, p.tick())
	assert.Equal(t, []int{0, 1, 2}, p.asks(), "not the one that has not answered")
	require.Equal(t, Asking, p.Stage)
	assert.Equal(t, Counted, p.votes(to(yes(0)), nil, nil, nil, nil))
	assert.Equal(t, Counted|Decided|Done, p.votes(nil, nil, nil, nil, to(yes(0))))
	assert.Equal(t, Granted, p.Verdict)
	assert.Equal(t, until, p.Until(), "from the first request on")
	assert.Zero(t, p.votes(nil, nil, nil, to(no("x"))), "a node votes once")
	assert.Equal(t, Counted|Settled, p.silent(), "of the others")
}

// Nobody's time is over because that of an earlier question was.
func TestSilenceIsThatOfItsQuestion(t *testing.T) {
	p := playing(t, 5, Locking)
	p.votes(to(no("~a")), to(no("~b")), to(no("~c")), to(yes(0)))
	p.tick()
	require.EqualValues(t, 1, p.Question)
	assert.Zero(t, p.Miss(4, 0, node.ErrTimeout, p.now))
	assert.Equal(t, Counted, p.Miss(4, 1, node.ErrTimeout, p.now))
}

// A node that has not answered in time may still do: of one claim, it never has two requests.
func TestNodesThatAreSilentAreNotAskedAgain(t *testing.T) {
	p := playing(t, 7, Locking)
	p.asks()
	silent := node.Outcome{Err: node.ErrTimeout}
	e := p.votes(to(yes(0)), to(yes(0)), to(no("~a")), to(no("~b")), to(no("~c")), to(no("~d")), &silent)
	assert.Equal(t, Counted|Decided|Settled|Split|Ask, e)
	assert.Equal(t, []int{2, 3, 4, 5}, p.asks())
}

// Who leads a split vote by digest goes on, and the others give back what they have, and tell nobody.
func TestSplitVoteHasOneLeader(t *testing.T) {
	for holder, leads := range map[string]bool{"~": true, "": false} {
		p := playing(t, 2, Locking)
		p.asks()
		e := p.votes(to(yes(0)), to(no(holder)))
		assert.Equal(t, leads, e.Has(Ask), holder)
		assert.Equal(t, !leads, e.Has(GiveBack|Done), holder)
		assert.False(t, e.Has(Wake))
		if leads {
			require.Equal(t, []int{1}, p.asks())
			assert.False(t, p.votes(nil, to(no(holder))).Has(Done), "it has not given way yet")
			require.Equal(t, Leading, p.Stage)
			assert.True(t, p.tick().Has(Ask))
			assert.True(t, p.votes(nil, to(yes(0))).Has(Done))
			assert.Equal(t, Granted, p.Verdict)
			continue
		}
		assert.Equal(t, Behind, p.Verdict)
		assert.Positive(t, p.Contest.Rest)
	}
	p := playing(t, 2, Locking)
	assert.True(t, p.votes(to(yes(0)), to(node.Outcome{Stance: node.No, Err: errReserved})).Has(Done), "it is another's turn")
	assert.Equal(t, Taken, p.Verdict)
}

// A vote that comes while the others are gathered may make the quorum.
func TestLateVoteEndsAContest(t *testing.T) {
	p := playing(t, 5, Locking)
	p.votes(to(no("~a")), to(no("~b")), to(no("~c")), to(yes(0)))
	require.Equal(t, Gathering, p.Stage)
	p = playing(t, 3, Locking)
	p.Takes = func(int) time.Duration { return time.Second }
	p.votes(to(yes(0)), to(no("~a")))
	require.Equal(t, Gathering, p.Stage, "the third one is slow")
	assert.True(t, p.votes(nil, nil, to(yes(0))).Has(Done))
	assert.Equal(t, Granted, p.Verdict)
}

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

func TestCounts(t *testing.T) {
	assert.True(t, Counts(5, 0), "a grant")
	assert.True(t, Counts(5, 5))
	assert.False(t, Counts(6, 5), "another lock may have 6")
	assert.False(t, Counts(4, 5))
}

func fenced(t *testing.T, nodes int) *play {
	t.Helper()
	p := playing(t, nodes, Locking)
	p.Fencing = NewFencing(nodes)
	p.asks()
	return p
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its node.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	p := fenced(t, 3)
	assert.True(t, p.votes(to(yes(9)), to(yes(9))).Has(Done))
	assert.EqualValues(t, 9, p.Fencing.Fence)
	assert.Equal(t, Counted|Settled, p.votes(nil, nil, to(yes(5))))
	assert.Empty(t, p.asks())
	require.NoError(t, p.Ballots[2].Err)
}

// Whoever drives the round sees the quorum before nodes raise their counters: its votes have decided, though it is no
// lock yet, and so nobody is told of that.
func TestFenceThatIsToBeRaisedIsAQuorum(t *testing.T) {
	p := fenced(t, 3)
	p.Vote(0, to(yes(5)), p.now)
	e := p.Vote(1, to(yes(9)), p.now)
	assert.Equal(t, Counted|Raised|More, e)
	assert.Equal(t, Granted, p.Standing())
	assert.Equal(t, Undecided, p.Verdict)
	assert.Equal(t, Ask, p.Next(p.now))
	assert.Equal(t, Undecided, p.Standing())
}

// Who fails because its whole time is over tells the next in line, however long a raise may take besides.
func TestWhoFailsInARaiseTellsAfterItsTime(t *testing.T) {
	for at, tells := range map[time.Duration]bool{patience - 1: false, patience: true} {
		p := fenced(t, 3)
		p.votes(to(yes(5)), to(yes(9)), to(node.Outcome{Err: node.ErrTimeout}))
		p.now = p.Start.Add(at)
		e := p.follow(p.Vote(0, &node.Outcome{Err: node.ErrTimeout}, p.now))
		assert.True(t, e.Has(Done|GiveBack))
		assert.Equal(t, tells, e.Has(Wake), at)
	}
}

// Those below the fence raise their counters, as does one that grants late, once. What is above it does not count.
func TestFenceIsRaisedTo(t *testing.T) {
	p := fenced(t, 5)
	assert.Equal(t, Counted|Raised|Ask, p.votes(to(yes(5)), to(yes(9)), to(yes(7))))
	assert.Equal(t, []int{0, 2}, p.asks())
	assert.EqualValues(t, 9, p.Fencing.Aim)
	assert.Equal(t, Ask, p.votes(nil, nil, nil, to(yes(3))), "it is no vote yet")
	assert.Equal(t, []int{3}, p.asks())
	late := yes(3)
	assert.Equal(t, Counted, p.votes(nil, nil, nil, &late), "it was asked to raise it, and lies")
	assert.Equal(t, node.Silent, late.Stance)
	above := yes(10)
	assert.Equal(t, Counted, p.votes(nil, nil, nil, nil, &above))
	assert.Equal(t, errOther, above.Err)
	assert.Equal(t, Counted, p.votes(to(yes(9))))
	assert.Equal(t, Counted|Decided|Settled|Done, p.votes(nil, nil, to(yes(9))))
	assert.EqualValues(t, 9, p.Fencing.Fence)
}

// Nodes that have lost the key while they were to raise are done without, if others have granted the lock.
func TestFenceIsRaisedToWithTheOthers(t *testing.T) {
	p := fenced(t, 5)
	p.votes(to(yes(5)), to(yes(9)), to(yes(7)), nil, nil)
	p.asks()
	assert.Equal(t, Counted, p.votes(nil, nil, nil, to(yes(10))))
	assert.Equal(t, Counted, p.votes(nil, nil, nil, nil, to(yes(10))))
	e := p.votes(to(node.Outcome{Stance: node.Gone}), nil, nil)
	assert.Equal(t, Counted|Decided|Ask, e)
	assert.EqualValues(t, 10, p.Fencing.Aim)
	assert.Equal(t, []int{1}, p.asks(), "not the one that has not answered yet")
	assert.Equal(t, Ask, p.votes(nil, nil, to(yes(9))), "to the earlier fence, late")
	assert.Equal(t, Counted|Decided|Done, p.votes(nil, to(yes(10))))
	assert.EqualValues(t, 10, p.Fencing.Fence)
}

// A timer that is late looks first at what has arrived; then the vote says that it was this process that stood still.
func TestTimerThatIsLateLooksFirst(t *testing.T) {
	p := playing(t, 3, Locking)
	busy := p.Start.Add(patience + node.MinStandstill - 1)
	assert.Equal(t, Overdue, p.Tick(busy), "a busy machine")
	p = playing(t, 3, Locking)
	late := p.Start.Add(patience + 677*time.Millisecond)
	assert.Equal(t, StoodStill, p.Tick(late))
	assert.Zero(t, p.Tick(late), "not yet")
	assert.Equal(t, Overdue, p.Tick(late.Add(node.Arrival)))
	assert.Equal(t, node.StandstillError(677*time.Millisecond), p.Silence(late))
	p.now = late
	p.votes(to(yes(0)), to(yes(0)))
	assert.Equal(t, Granted, p.Verdict, "it was read in time")
}

// A quorum that comes when the validity is over is none, nor is one of which too little is left to whom it is for.
func TestQuorumAfterUntilIsNone(t *testing.T) {
	p := playing(t, 3, Locking)
	p.now = p.Until().Mono
	e := p.votes(to(yes(0)), to(yes(0)))
	assert.True(t, e.Has(Done|GiveBack|Wake))
	assert.Equal(t, NoQuorum, p.Verdict)

	p = playing(t, 3, Locking)
	p.votes(to(yes(0)), to(yes(0)))
	assert.Zero(t, p.Take(p.Until().Mono.Add(-2), 1))
	assert.Equal(t, Granted, p.Verdict)
	assert.True(t, p.Take(p.Until().Mono.Add(-1), 1).Has(GiveBack))
	assert.Equal(t, NoQuorum, p.Verdict)

	p = playing(t, 3, Extending)
	p.Valid = to(NewDeadline(p.Start, patience, 0))
	p.now = p.Valid.Mono
	p.votes(to(yes(0)), to(yes(0)))
	assert.Equal(t, Expired, p.Verdict)
}

// Who gives up gives back, and the next in line is told. What has been decided stays.
func TestGiveUp(t *testing.T) {
	p := playing(t, 3, Locking)
	p.votes(to(yes(0)))
	assert.Equal(t, NoQuorum, p.Amounts())
	assert.Equal(t, Decided|Done|GiveBack|Wake, p.GiveUp())
	assert.True(t, p.GivenUp())
	assert.Equal(t, Counted, p.votes(nil, to(yes(0))), "a quorum that comes then is none")
	assert.True(t, p.GivenUp())
	assert.Zero(t, p.GiveUp())

	p = playing(t, 3, Locking)
	p.votes(to(no("x")))
	p.GiveUp()
	assert.Equal(t, Taken, p.Amounts())

	p = playing(t, 3, Locking)
	p.votes(to(no("~a")), to(yes(0)), to(no("~b")))
	p.votes(to(no("~a")), nil, to(no("~b")))
	require.Equal(t, Leading, p.Stage)
	assert.Equal(t, Done|GiveBack|Wake, p.GiveUp(), "the question was decided")
	assert.Equal(t, Taken, p.Amounts())

	p = playing(t, 3, Extending)
	assert.Equal(t, Decided|Done, p.GiveUp(), "a lock that was to be extended stays")
}
