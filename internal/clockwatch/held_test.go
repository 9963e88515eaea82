package clockwatch

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type held struct {
	until     time.Time
	resources []string
	entry     Entry
}

func (l *held) Resources() []string { return l.resources }

func (l *held) Err() error {
	if time.Now().Before(l.until) {
		return nil
	}
	return errors.New("ended")
}

func until(d time.Duration, resources ...string) *held {
	return &held{until: time.Now().Add(d), resources: resources}
}

func (k *Watch) add(l *held)    { k.Add(l, &l.entry) }
func (k *Watch) remove(l *held) { k.Remove(l, &l.entry) }

func TestHeldForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil, nil)
		assert.Empty(t, s.Held())
		long := until(time.Hour)
		s.add(long)
		for range 1000 {
			s.add(until(time.Second))
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, s.Size(), MinSweep+2)
		time.Sleep(time.Second)
		assert.Equal(t, 1, s.Count())
		assert.Equal(t, 1, s.Size())
		s.add(until(time.Second))
		time.Sleep(time.Second)
		assert.Len(t, s.Held(), 1, "not at its end any more")
		s.remove(long)
		s.remove(long)
		assert.Empty(t, s.Held())
	})
}

// Who looks for the locks of a resource that want to know of it looks at no others.
func TestWantedAreFoundByResource(t *testing.T) {
	k := New(nil, nil, nil)
	one, other, gone := until(0, "a", "b"), until(0, "c"), until(0, "a")
	for _, l := range []*held{one, other} {
		k.add(l)
	}
	for _, l := range []*held{one, other, gone} { // The last one has been removed.
		k.Want(l, &l.entry)
	}
	assert.Equal(t, []Lock{one}, k.Wanted([]string{"a", "b", "x"}))
	assert.Equal(t, []Lock{one, other}, k.Wanted([]string{"b", "c"}))
	assert.Empty(t, k.Wanted([]string{"x"}))

	later := until(0, "b")
	k.add(later)
	k.Want(later, &later.entry)
	k.remove(one)
	assert.Empty(t, k.Wanted([]string{"a"}))
	assert.Equal(t, []Lock{later}, k.Wanted([]string{"b"}), "a later lock on the resource")
	k.remove(later)
	k.remove(other)
	assert.Empty(t, k.wanted)
}

// Each lock is found once, whichever are removed, and whichever have ended.
func TestHeldIsWhatWasAddedLessWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		k, all := New(nil, nil, nil), []*held(nil)
		for range 3000 {
			e := until(time.Duration(1+rng.IntN(400)) * time.Second)
			k.add(e)
			all = append(all, e)
			if i := rng.IntN(2 * len(all)); i < len(all) {
				k.remove(all[i])
				all = slices.Delete(all, i, i+1)
			}
			time.Sleep(time.Second)
			all = slices.DeleteFunc(all, func(e *held) bool { return e.Err() != nil })
			require.LessOrEqual(t, k.Size(), max(2*len(all), MinSweep)+20)
			if rng.IntN(50) > 0 {
				continue
			}
			require.Equal(t, len(all), k.Count())
			held := make(map[Lock]bool)
			for _, l := range k.Held() {
				held[l] = true
			}
			for _, e := range all {
				require.True(t, held[e])
			}
		}
	})
}
