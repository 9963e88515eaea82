package node

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRedialer(t *testing.T) {
	const ms = time.Millisecond
	start := time.Now()
	served, unserved := &pipeline{served: true}, &pipeline{}
	wrong := &pipeline{served: true, wrongServer: errors.New("READONLY")}
	var d redialer
	for _, want := range []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second} {
		assert.Equal(t, want, d.failed())
	}
	assert.Equal(t, time.Second, d.after(unserved, start, start.Add(999*ms)), "too short to count")
	assert.Equal(t, time.Second, d.after(wrong, start, start.Add(999*ms)), "answers of the wrong server do not count")
	assert.Equal(t, 20*ms, d.after(wrong, start, start.Add(time.Hour)), "but it has been the right one for long")
	now := start.Add(2 * time.Hour)
	for range Redials {
		assert.Zero(t, d.after(served, now, now))
	}
	assert.Equal(t, 100*ms, d.after(served, now, now), "the bucket is empty")
	now = now.Add(300 * ms)
	assert.Zero(t, d.after(served, now, now))
	assert.Zero(t, d.after(unserved, now.Add(-time.Second), now), "it has lasted")
	assert.Equal(t, 100*ms, d.after(served, now, now))
	assert.Equal(t, 20*ms, d.after(unserved, now, now), "the backoff begins anew")
}

func TestLimits(t *testing.T) {
	assert.Equal(t, time.Second, Silence(250*time.Millisecond), "a dead connection is found soon")
	assert.Equal(t, 6*time.Second, Silence(3*time.Second))
	assert.Equal(t, time.Second, ConnectLimit(250*time.Millisecond))
	assert.Equal(t, 4*time.Second, ConnectLimit(2*time.Second))
}

func TestTheEndOfALongTTLIsReckonedRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		assert.Equal(t, time.Duration(math.MaxInt64), n.after(math.MaxInt64))
		time.Sleep(time.Second)
		assert.Equal(t, time.Duration(math.MaxInt64), n.after(math.MaxInt64))
		assert.Equal(t, time.Minute+time.Second, n.after(time.Minute))
	})
}

// What is kept for other processes' tokens is counted down again.
func TestAQueueCountsForeignBytes(t *testing.T) {
	var q requestQueue
	token := new(Token)
	token.BeginForeign(nil, 1, time.Minute, 1000)
	release := func() *Request { return &Request{Task: &Task{Kind: Release, Token: token}} }
	first, second := release(), release()
	q.push(first)
	q.push(second)
	assert.Equal(t, 2000, q.foreign)
	q.remove(second)
	assert.Equal(t, first, q.pop())
	assert.Zero(t, q.foreign)
	assert.Zero(t, q.len)
}

// The marks of few nodes are in the token itself, those of many are not.
func TestEachTokenHasMarksForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 7, 8, 9, 100} {
		var foreign, own Token
		foreign.BeginForeign(nil, nodes, time.Minute, 0)
		own.Begin(nil, nodes, time.Minute)
		assert.Equal(t, make([]Mark, nodes), own.marks)
		for i := range own.marks {
			own.marks[i] = MarkReleased
			assert.Equal(t, MarkSent|markForeign|markUnknown, foreign.marks[i], "node %d of %d", i, nodes)
		}
	}
}

// settled is an observer that collects how many releases it is told of at a time.
type settled []int

func (*settled) Up()                    {}
func (*settled) Lost(error)             {}
func (s *settled) Settled(_, count int) { *s = append(*s, count) }
func (*settled) Deaf(error)             {}

// One release that is owed had not been written when its connection ended, another one had. The next connection
// tells of both together.
func TestReleasesThatWaitedForTwoConnectionsAreToldTogether(t *testing.T) {
	var told settled
	n := &Node{observer: &told}
	n.work.L = &n.mu
	token := new(Token)
	token.Begin(nil, 1, time.Minute)
	release := &Task{Kind: Release, Token: token}
	n.push(&Request{Task: release, wasOwed: true})
	n.owed.push(&Request{Task: release, wasOwed: true})
	var s settlement
	s.begin(n, 0, n.sendOwed())
	s.answered(n, true)
	assert.Empty(t, told)
	s.answered(n, true)
	assert.Equal(t, settled{2}, told)
	assert.Zero(t, s)
}
