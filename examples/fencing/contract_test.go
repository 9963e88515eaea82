package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// A store is one value of a resource that checks fences. Values are decimal numbers.
type store struct {
	write func(fence int64, value string) error
	read  func(fence int64) (string, error)
	stale error // what the error matches that an earlier holder gets
}

// keepsOut is what all recipes must pass: the stores that open returns keep the earlier holders of a lock out, whatever
// they believe. Nobody has used them but, perhaps, a holder with fence 1.
func keepsOut(t *testing.T, open func(t *testing.T) store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, store){
		"LateWrite":      lateWrite,
		"WriteAfterRead": writeAfterRead,
		"Numbers":        numbers,
		"BadFence":       badFence,
		"Race":           race,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// lateWrite is what a lock alone cannot prevent: A goes on after its lock has ended, and B has written meanwhile.
func lateWrite(t *testing.T, s store) {
	t.Helper()
	a, b := twoHolders(t)
	require.NoError(t, s.write(a.Fence(), "10"))
	require.NoError(t, s.write(b.Fence(), "20"))
	require.NoError(t, a.Err(), "A knows nothing of it")
	require.ErrorIs(t, s.write(a.Fence(), "11"), s.stale)
	s.requireStored(t, "20", b.Fence())
	require.NoError(t, s.write(b.Fence(), "21"), "a holder writes more than once")
	s.requireStored(t, "21", b.Fence())
}

// writeAfterRead has A write when B has only read. What B then writes comes from what it has read: to let A's write in
// would be to lose it.
func writeAfterRead(t *testing.T, s store) {
	t.Helper()
	a, b := twoHolders(t)
	require.NoError(t, s.write(a.Fence(), "10"))
	value, err := s.read(b.Fence())
	require.NoError(t, err)
	require.Equal(t, "10", value)
	require.ErrorIs(t, s.write(a.Fence(), "11"), s.stale)
	require.NoError(t, s.write(b.Fence(), value+"0"))
	s.requireStored(t, "100", b.Fence())
}

// numbers has fences that are in another order as text, or when they are rounded.
func numbers(t *testing.T, s store) {
	t.Helper()
	const largest = 1<<53 - 1 // of a lock
	require.NoError(t, s.write(9, "1"))
	require.NoError(t, s.write(10, "2"))
	require.ErrorIs(t, s.write(9, "3"), s.stale)
	s.requireStored(t, "2", 10)
	require.NoError(t, s.write(largest-1, "4"))
	s.requireStored(t, "4", largest-1)
	require.NoError(t, s.write(largest, "5"))
	require.ErrorIs(t, s.write(largest-1, "6"), s.stale)
	s.requireStored(t, "5", largest)
}

// badFence has fences that no lock has, such as that of a lock without WithFencing.
func badFence(t *testing.T, s store) {
	t.Helper()
	require.NoError(t, s.write(5, "1"))
	for _, fence := range []int64{0, -1, -1 << 63} {
		_, err := s.read(fence)
		for _, err := range []error{err, s.write(fence, "2")} {
			require.Error(t, err)
			require.NotErrorIs(t, err, s.stale)
		}
	}
	s.requireStored(t, "1", 5)
}

// A write is one that was accepted. It was somewhere between two ticks of a clock.
type write struct{ began, ended, fence int64 }

// race has many holders write at once. Their fences grow in the long run only, so that many writes are accepted and
// many refused.
func race(t *testing.T, s store) {
	t.Helper()
	const writers, writes = 8, 20
	var (
		wg            sync.WaitGroup
		clock         atomic.Int64
		mu            sync.Mutex
		accepted      []write
		last, refused int64
	)
	for i := range writers {
		fences := someFences(uint64(i), writes)
		wg.Go(func() {
			for _, fence := range fences {
				began := clock.Add(1)
				err := s.write(fence, strconv.FormatInt(fence, 10))
				w := write{began, clock.Add(1), fence}
				mu.Lock()
				last = max(last, fence)
				if err == nil {
					accepted = append(accepted, w)
				} else {
					refused++
				}
				mu.Unlock()
				if err == nil {
					err = s.readBack(fence)
				}
				if err != nil && !errors.Is(err, s.stale) {
					t.Errorf("fence %d: %v", fence, err)
				}
			}
		})
	}
	wg.Wait()
	assert.Positive(t, refused, "no write was refused")
	neverDown(t, accepted)
	// The largest fence is never refused, and nothing is accepted after it.
	s.requireStored(t, strconv.FormatInt(last, 10), last)
}

// someFences grow in the long run only.
func someFences(seed uint64, count int) []int64 {
	rng := rand.New(rand.NewPCG(1, seed))
	fences := make([]int64, count)
	for n := range fences {
		fences[n] = 1 + 20*int64(n) + rng.Int64N(100)
	}
	return fences
}

// readBack reads as the holder that has written its fence as the value. If it is still the latest one, nobody else has.
func (s store) readBack(fence int64) error {
	value, err := s.read(fence)
	if err == nil && value != strconv.FormatInt(fence, 10) {
		return fmt.Errorf("it has read %s", value)
	}
	return err
}

// neverDown checks that no write was accepted that began when one with a larger fence had ended. Of writes that overlap
// nobody can tell which one was first.
func neverDown(t *testing.T, accepted []write) {
	t.Helper()
	for _, w := range accepted {
		for _, v := range accepted {
			if v.ended < w.began && v.fence > w.fence {
				t.Errorf("fence %d was accepted after %d", w.fence, v.fence)
			}
		}
	}
}

// requireStored looks at the value, and at its fence: the one before is refused, and it is not.
func (s store) requireStored(t *testing.T, value string, fence int64) {
	t.Helper()
	_, err := s.read(fence - 1)
	require.ErrorIs(t, err, s.stale)
	got, err := s.read(fence)
	require.NoError(t, err)
	require.Equal(t, value, got)
}

// twoHolders returns the locks of A, who is suspended for longer than his ttl, and of B, who has come meanwhile.
func twoHolders(t *testing.T) (a, b *redlock.Lock) {
	t.Helper()
	s, err := stage.Open(t.Output())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	resources := []string{"account:1"}
	a = stage.Got(s.Client(redlock.WithFencing()).Lock(t.Context(), resources, time.Minute))
	for _, n := range s.Nodes {
		require.NoError(t, n.Del(resources[0])) // What happens at the end of the ttl.
	}
	b = stage.Got(s.Client(redlock.WithFencing()).Lock(t.Context(), resources, time.Minute))
	require.Greater(t, b.Fence(), a.Fence())
	return a, b
}
