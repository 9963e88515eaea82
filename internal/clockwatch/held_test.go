package clockwatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

type lease struct{ until time.Time }

func (l *lease) Err() error {
	if time.Now().Before(l.until) {
		return nil
	}
	return errors.New("ended")
}

func TestHeldForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil, nil)
		assert.Empty(t, s.Held())
		long := &lease{time.Now().Add(time.Hour)}
		s.Add(long)
		for range 1000 {
			s.Add(&lease{time.Now().Add(time.Second)})
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, s.Size(), MinSweep+1)
		time.Sleep(time.Second)
		assert.Len(t, s.Held(), 1)
		assert.Equal(t, 1, s.Size())
		s.Add(&lease{time.Now().Add(time.Second)})
		time.Sleep(time.Second)
		assert.Len(t, s.Held(), 1, "not at its end any more")
		s.Remove(long)
		s.Remove(long)
		assert.Empty(t, s.Held())
	})
}

// Who looks for the locks of a resource that want to know of it looks at no others.
func TestWantedAreFoundByResource(t *testing.T) {
	k := New(nil, nil, nil)
	one, other, gone := &lease{}, &lease{}, &lease{}
	for _, l := range []*lease{one, other} {
		k.Add(l)
	}
	k.Want(one, []string{"a", "b"})
	k.Want(other, []string{"c"})
	k.Want(gone, []string{"a"}) // It has been removed.
	assert.Equal(t, []Lock{one}, k.Wanted([]string{"a", "b", "x"}))
	assert.Equal(t, []Lock{one, other}, k.Wanted([]string{"b", "c"}))
	assert.Empty(t, k.Wanted([]string{"x"}))

	later := &lease{}
	k.Add(later)
	k.Want(later, []string{"b"})
	k.Remove(one)
	assert.Empty(t, k.Wanted([]string{"a"}))
	assert.Equal(t, []Lock{later}, k.Wanted([]string{"b"}), "a later lock on the resource")
	k.Remove(later)
	k.Remove(other)
	assert.Empty(t, k.wanted)
}
