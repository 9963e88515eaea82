package node

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRedialer(t *testing.T) {
	const ms = time.Millisecond
	start := time.Now()
	var d redialer
	for _, want := range []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second} {
		assert.Equal(t, want, d.failed())
	}
	assert.Equal(t, time.Second, d.after(false, false, 999*ms, start), "too short to count")
	assert.Equal(t, time.Second, d.after(true, true, 999*ms, start), "answers of the wrong server do not count")
	assert.Equal(t, 20*ms, d.after(true, true, time.Hour, start), "but it has been the right one for long")
	now := start.Add(2 * time.Hour)
	for range Redials {
		assert.Zero(t, d.after(true, false, 0, now))
	}
	assert.Equal(t, 100*ms, d.after(true, false, 0, now), "the bucket is empty")
	now = now.Add(300 * ms)
	assert.Zero(t, d.after(true, false, 0, now))
	assert.Zero(t, d.after(false, false, time.Second, now), "it has lasted")
	assert.Equal(t, 100*ms, d.after(true, false, 0, now))
	assert.Equal(t, 20*ms, d.after(false, false, 0, now), "the backoff begins anew")
}

func TestLimits(t *testing.T) {
	assert.Equal(t, time.Second, Silence(250*time.Millisecond), "a dead connection is found soon")
	assert.Equal(t, 6*time.Second, Silence(3*time.Second))
	assert.Equal(t, time.Second, ConnectLimit(250*time.Millisecond))
	assert.Equal(t, 4*time.Second, ConnectLimit(2*time.Second))
}

func TestTracesEndIsReckonedRightForALongTTL(t *testing.T) {
	assert.Equal(t, time.Duration(math.MaxInt64), after(0, math.MaxInt64))
	assert.Equal(t, time.Duration(math.MaxInt64), after(time.Second, math.MaxInt64))
	assert.Equal(t, time.Minute+time.Second, after(time.Second, time.Minute))
}

// The marks of few nodes are in the trace itself, those of many are not.
func TestTraceHasMarksForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 7, 8, 9, 100} {
		var foreign, own Trace
		foreign.BeginForeign(nil, nodes, time.Minute, 0)
		own.Begin(nil, nodes, time.Minute)
		assert.Equal(t, make([]Mark, nodes), own.marks)
		for i := range own.marks {
			own.marks[i] = MarkReleased
			assert.Equal(t, MarkSent|markUnknown, foreign.marks[i], "node %d of %d", i, nodes)
		}
	}
}

// settled is an observer that collects how many releases it is told of at a time.
type settled []int

func (*settled) Up()                    {}
func (*settled) Lost(error)             {}
func (s *settled) Settled(_, count int) { *s = append(*s, count) }
func (*settled) Deaf(error)             {}

// The observer is told of the releases that were owed when the last one has been answered, or the connection ends.
func TestReleasesThatAreOwedAreToldTogether(t *testing.T) {
	var told settled
	n := &Node{Config: Config{Observer: &told}, epoch: time.Now(), state: nodeUp}
	n.work.L = &n.mu
	for range 3 {
		trace := new(Trace)
		trace.Begin(released{}, 1, time.Minute)
		trace.marks[0] = MarkSent
		n.owe(&Request{Task: &Task{Kind: Release, Trace: trace}})
	}
	n.sendReleases()
	n.released(n.queue.pop(), true)
	assert.Empty(t, told)
	n.inFlight.push(n.queue.pop()) // The third one is not even written.
	assert.Empty(t, n.leaveOpen())
	assert.Equal(t, settled{1}, told)
	assert.Zero(t, n.queue.len+n.inFlight.len+n.releases.out)
	n.sendReleases()
	n.released(n.queue.pop(), true)
	assert.Len(t, told, 1)
	n.released(n.queue.pop(), true)
	assert.Equal(t, settled{1, 2}, told)
	n.leaveOpen()
	assert.Len(t, told, 2)
}
