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
