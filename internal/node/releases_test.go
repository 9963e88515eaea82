package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// A look may be answered with places that there are not, also of 64 bits where an int has 32.
func TestLookWithPlacesThatThereAreNot(t *testing.T) {
	n := &Node{Config: Config{Epoch: time.Now()}}
	trace, e := repeating(n, 1)
	var look lookTask
	look.add(n.releases.pop(1))
	n.looked(&look, []any{int64(-1), int64(0), int64(2), int64(1<<32 + 1), "1", nil}, nil, time.Now())
	assert.Zero(t, n.queue.len, "nothing was found")
	assert.True(t, isDue(trace))
	assert.EqualValues(t, 2, e.step)
}
