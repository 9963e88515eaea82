package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// repeating has the release of a token of so many bytes be repeated so often.
func repeating(n *Node, size int, step uint8) (*Trace, *dueRelease) {
	trace := new(Trace)
	trace.BeginForeign(released{}, 1, size)
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
	trace, e := repeating(n, 0, 1)
	var look lookTask
	look.add(n.releases.pop(1))
	n.looked(&look, []any{int64(-1), int64(0), int64(2), int64(1<<32 + 1), "1", nil}, nil, time.Now())
	assert.Zero(t, n.queue.len, "nothing was found")
	assert.True(t, isDue(trace))
	assert.EqualValues(t, 2, e.step)
}
