package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repeating returns a token on one node whose releases are repeated.
func repeating(size int) *Token {
	token := new(Token)
	token.BeginForeign(nil, 1, time.Hour, size)
	token.marks[0] |= markRepeated
	return token
}

// Where there is no room for one more release to be repeated, the one that was repeated most often goes.
func TestTheReleaseThatWasRepeatedMostOftenGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		often, oftenToo := repeating(1), repeating(1)
		n.repeatLater(&repeat{token: often, step: 7})
		n.repeatLater(&repeat{token: oftenToo, step: 7})
		for range MaxBacklog - 2 {
			n.repeatLater(&repeat{token: repeating(1), step: 3})
		}
		assert.Equal(t, MaxBacklog, n.repeats.len)
		assert.Zero(t, n.repeats.dropped)
		one := repeating(1)
		n.repeatLater(&repeat{token: one})
		assert.Equal(t, MaxBacklog, n.repeats.len)
		assert.EqualValues(t, 1, n.repeats.dropped)
		assert.Zero(t, often.marks[0]&markRepeated, "the first of those is the one that waits for the longest time")
		assert.NotZero(t, oftenToo.marks[0]&markRepeated)
		assert.NotZero(t, one.marks[0]&markRepeated)
	})
}

// A connection that ends gives back those that were on their way, so that there may be more than there is room for.
func TestRepeatedReleasesThatComeBackAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		var look lookTask
		for range maxLook {
			look.repeats = append(look.repeats, &repeat{token: repeating(1), step: 3})
		}
		for range MaxBacklog {
			n.repeatLater(&repeat{token: repeating(1), step: 3})
		}
		n.repeats.out = 1
		assert.True(t, n.breakRepeat(&Request{Task: &Task{Kind: lookKind, look: &look}}))
		assert.Equal(t, MaxBacklog+maxLook, n.repeats.len)
		n.repeatLater(&repeat{token: repeating(1)})
		assert.Equal(t, MaxBacklog, n.repeats.len)
		assert.EqualValues(t, maxLook+1, n.repeats.dropped)
	})
}

// Those of other processes' tokens are bounded by what they take, too.
func TestRepeatedReleasesOfOtherProcessesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		for range 4 {
			n.repeatLater(&repeat{token: repeating(MaxForeign / 4)})
		}
		more, own := repeating(1), new(Token)
		own.Begin(nil, 1, time.Minute)
		own.marks[0] = markRepeated
		n.repeatLater(&repeat{token: more})
		n.repeatLater(&repeat{token: own})
		assert.Equal(t, 5, n.repeats.len)
		assert.EqualValues(t, 1, n.repeats.dropped)
		assert.Zero(t, more.marks[0]&markRepeated)
		assert.NotZero(t, own.marks[0]&markRepeated)
		for range 4 {
			n.repeats.pop(0)
		}
		assert.Zero(t, n.repeats.foreign)
	})
}

// The last gap is beyond the longest life of any lock.
func TestGapsDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		e := &repeat{token: repeating(1), last: n.after(1 << 62)}
		for step := range maxStep + 3 {
			n.repeatLater(e)
			assert.Equal(t, firstGap<<min(step, maxStep), e.due)
			assert.Equal(t, e, n.repeats.pop(min(step, maxStep)))
			e.step = min(e.step+1, maxStep)
		}
		assert.Greater(t, firstGap<<maxStep, 400*24*time.Hour)
	})
}

// released owns a token on one key whose release is answered with what it should be.
type released struct{}

func (released) ReleaseCommand(time.Time) Command {
	return Command{Script: NewScript("release", "", func(reply any) Outcome {
		if reply == int64(1) {
			return Outcome{Stance: Yes}
		}
		return Unexpected("release", reply)
	})}
}
func (released) ReleaseVoter() Voter             { return nil }
func (r released) ReleaseLate() (Command, Voter) { return r.ReleaseCommand(time.Now()), nil }
func (released) KeptUntil() time.Time            { return time.Time{} }
func (released) Keys() []any                     { return []any{"a"} }
func (released) Value() any                      { return "token" }

// A look may be answered with places that there are not, also of 64 bits where an int has 32.
func TestALookWithPlacesThatThereAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now()}
		n.work.L = &n.mu
		token := new(Token)
		token.Begin(released{}, 1, time.Hour)
		token.marks[0] = MarkReleased | markUnknown | markRepeated
		var look lookTask
		look.add(&repeat{token: token, last: time.Hour})
		n.repeats.out = 1
		n.looked(&look, []any{int64(-1), int64(0), int64(2), int64(1<<32 + 1), "1", nil}, nil)
		assert.Zero(t, n.queue.len, "nothing was found")
		assert.Equal(t, 1, n.repeats.len)
	})
}

// An answer that no script gives says nothing: the release is repeated until there is one, and holds up no other.
func TestAnAnswerThatNoScriptGivesEndsNoRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{epoch: time.Now(), state: nodeUp, Timeout: time.Second}
		n.work.L = &n.mu
		p := &pipeline{node: n}
		answer := func(reply any) (q *Request) {
			t.Helper()
			synctest.Wait()
			n.mu.Lock()
			if q = n.queue.pop(); q != nil {
				n.inFlight.push(q)
			}
			n.mu.Unlock()
			require.NotNil(t, q, "nothing is sent")
			p.take(reply, nil, time.Now())
			return q
		}
		state := func() (refused, out, left int) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.repeats.refused, n.repeats.out, n.repeats.len
		}
		requireRefused := func(why string) {
			t.Helper()
			refused, out, _ := state()
			require.Equal(t, 1, refused, why)
			require.Zero(t, out)
		}
		token := new(Token)
		token.Begin(released{}, 1, time.Hour)
		token.marks[0] = MarkSent | MarkReleased
		n.push(&Request{Task: &Task{Kind: Release, Command: released{}.ReleaseCommand(time.Now()), Token: token}})
		answer("QUEUED")
		requireRefused("it is not known to be carried out")
		time.Sleep(firstGap)
		assert.NotNil(t, answer("QUEUED").look)
		requireRefused("whether its key is there is not known")
		time.Sleep(2 * firstGap)
		assert.NotNil(t, answer([]any{int64(1)}).look)
		assert.NotNil(t, answer("QUEUED").repeat)
		requireRefused("it is not known to be carried out")
		time.Sleep(4 * firstGap)
		assert.NotNil(t, answer([]any{int64(1)}).look)
		assert.NotNil(t, answer(int64(1)).repeat)
		_, _, left := state()
		assert.Zero(t, left)
		assert.Zero(t, token.marks[0]&(MarkSent|markRepeated))
	})
}
