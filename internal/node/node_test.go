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

// repeating has the release of a token of so many bytes be repeated so often.
func repeating(n *Node, step uint8) (*Trace, *dueRelease) {
	trace := new(Trace)
	trace.BeginForeign(released{}, 1, 0)
	e := n.releases.add(trace, 0, 0)
	if e != nil {
		e.open = false
		n.releases.open--
		n.delay(e, step, time.Now())
	}
	return trace, e
}

// isDue reports whether a release of the token is to be sent again.
func isDue(trace *Trace) bool { return trace.at(0)&markDue != 0 }

// Where there is no room for one more release, the one goes that was repeated most often; but none that is owed.
func TestReleaseThatWasRepeatedMostOftenGivesWay(t *testing.T) {
	n := &Node{Config: Config{Epoch: time.Now()}}
	often, _ := repeating(n, 8)
	oftenToo, _ := repeating(n, 8)
	_, onItsWay := repeating(n, 32)
	n.releases.pop(32)
	for range MaxBacklog - 3 {
		repeating(n, 4)
	}
	assert.Zero(t, n.releases.dropped)
	one, _ := repeating(n, 1)
	assert.Equal(t, MaxBacklog, n.releases.len)
	assert.EqualValues(t, 1, n.releases.dropped)
	assert.False(t, isDue(often), "the first of those is the one that waits for the longest time")
	assert.True(t, isDue(oftenToo))
	assert.True(t, isDue(one))
	assert.True(t, isDue(onItsWay.trace))

	owe := func(size int) *Trace {
		trace := new(Trace)
		trace.BeginForeign(released{}, 1, size)
		n.owe(&Request{Task: &Task{Kind: Release, Trace: trace}}, time.Now())
		return trace
	}
	for range MaxBacklog + 10 {
		assert.True(t, isDue(owe(0)))
	}
	assert.Equal(t, MaxBacklog+11, n.releases.len, "with that on its way")
	assert.EqualValues(t, MaxBacklog, n.releases.dropped)
	assert.False(t, isDue(owe(1)), "another process's")
	assert.EqualValues(t, MaxBacklog+1, n.releases.dropped)
}

// The last gap is beyond the longest life of any lock.
func TestReleasesAreRepeatedInGapsThatDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{Config: Config{Epoch: time.Now()}}
		_, e := repeating(n, 1)
		for step := range uint8(maxStep + 2) {
			assert.Equal(t, firstGap<<min(step, maxStep-1), e.at)
			assert.Equal(t, e, n.releases.pop(e.step))
			n.delay(e, e.step+1, time.Now())
		}
		assert.Greater(t, e.at, 400*24*time.Hour)
	})
}

// They are sent in the order in which they are due, however often they were repeated.
func TestReleasesAreSentInTheOrderInWhichTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{Config: Config{Epoch: time.Now()}}
		_, seldom := repeating(n, 1)
		time.Sleep(firstGap)
		_, often := repeating(n, 2)
		time.Sleep(firstGap)
		_, once := repeating(n, 1)
		_, lost := repeating(n, 8)
		n.releases.pop(8)
		n.releases.pushNow(lost)
		for _, want := range []*dueRelease{lost, seldom, once, often, nil} {
			first := n.releases.first()
			assert.Equal(t, want, first)
			if first != nil {
				n.releases.pop(first.step)
			}
		}
	})
}

// released owns a token on one key whose release is answered with what it should be.
type released struct{}

func (released) Release(time.Time, bool) (Command, Receiver) {
	return Command{Script: NewScript("release", "", func(reply any) Outcome {
		if reply == int64(1) {
			return Outcome{Stance: Yes}
		}
		return Unexpected("release", reply)
	})}, nil
}
func (released) LeavesKeys() bool    { return false }
func (released) Life() time.Duration { return time.Hour }
func (released) Keys() []any         { return []any{"a"} }
func (released) Value() any          { return "token" }

func TestLookWithPlacesThatThereAreNot(t *testing.T) {
	look := lookTask{releases: make([]*dueRelease, 1), of: []int{0}}
	assert.Equal(t, []bool{false}, look.found([]any{int64(-1), int64(0), int64(2), int64(1<<32 + 1), "1", nil}))
}

// What could not be written goes back ahead of what was queued meanwhile, with its counts.
func TestRequestQueueAppend(t *testing.T) {
	lock, release := &Request{Task: &Task{Kind: LockRequest}}, &Request{Task: &Task{Kind: Release}}
	later := &Request{Task: &Task{Kind: LockRequest}}
	var first, second requestQueue
	first.push(lock)
	first.push(release)
	second.push(later)
	first.append(second)
	first.append(requestQueue{})
	assert.Equal(t, [2]int{3, 2}, [2]int{first.len, first.locks})
	for _, want := range []*Request{lock, release, later} {
		assert.Same(t, want, first.pop())
	}
	assert.Equal(t, [2]int{}, [2]int{first.len, first.locks})
}

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
		"no replicas, no write":    {[]Outcome{late, {Err: errors.New("NOREPLICAS few")}, yes, late, late}, false, []string{lateFor3s}},
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

// A node that is down counts as that, and misses nothing. The same again is told at once when it is back.
func TestResponsiveIsNoQuestionWhileItIsDown(t *testing.T) {
	now, late := time.Now(), Outcome{Err: ErrTimeout}
	n := &Node{Config: Config{Timeout: time.Second, Code: code, Epoch: now}, state: Up}
	vote := func(after time.Duration) int {
		n.Voted(&late, now.Add(after*time.Second))
		return len(n.Facts())
	}
	require.Equal(t, []int{0, 0, 1}, []int{vote(0), vote(2), vote(4)})
	_, _ = n.Ended(new(Conn), false, now)
	n.Facts()
	require.NoError(t, n.unresponsive(now))
	assert.Zero(t, vote(5))
	n.state = Up
	assert.Equal(t, 1, vote(6))
	require.ErrorIs(t, n.unresponsive(now), ErrTimeout)
}

// The marks of few nodes are in the trace itself, those of many are not.
func TestTraceHasMarksForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 7, 8, 9, 100} {
		var foreign, own Trace
		foreign.BeginForeign(nil, nodes, 0)
		own.Begin(nil, nodes)
		require.Len(t, own.places, nodes)
		for i := range own.places {
			assert.Zero(t, own.at(i))
			own.places[i].mark = MarkReleased
			assert.Equal(t, MarkSent|markUnknown, foreign.at(i), "node %d of %d", i, nodes)
		}
	}
}

// A release that finds nothing repeats one of which nobody knows whether it was carried out. After one that was not,
// it shows a loss.
func TestTraceReleaseThatFindsNothing(t *testing.T) {
	yes, no := Outcome{Stance: Yes}, Outcome{Stance: No}
	nonsense := Unexpected("unlock", "QUEUED")
	for name, test := range map[string]struct {
		answers []Outcome
		want    Stance // of the last
	}{
		"at first":       {[]Outcome{no}, No},
		"twice":          {[]Outcome{no, no}, No},
		"after one":      {[]Outcome{yes, no, no}, Yes},
		"after nonsense": {[]Outcome{nonsense, no, no}, Yes},
		"nonsense":       {[]Outcome{yes, nonsense}, Silent},
	} {
		var trace Trace
		trace.Begin(nil, 1)
		q, last := Request{Task: &Task{Kind: Release, Trace: &trace}}, Outcome{}
		for _, out := range test.answers {
			last = q.heard(out)
		}
		assert.Equal(t, test.want, last.Stance, name)
	}
}
