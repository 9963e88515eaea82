// Package fencetest is the test that all recipes of this module must pass: a store
// keeps the earlier holders of a lock out, whatever they believe.
package fencetest

import (
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

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const resource = "account:1"

// A Store is one value of a resource that checks fences. Values are decimal numbers.
type Store struct {
	Write func(fence int64, value string) error
	Read  func(fence int64) (string, error)
	// Stored returns what is stored, without a fence.
	Stored func() (value string, fence int64, err error)
	// Stale is what the error matches that an earlier holder gets.
	Stale error
}

// Run tests the stores that open returns. Nobody has used them but, perhaps, a holder
// with fence 1.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Store){
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

// lateWrite is what a lock alone cannot prevent: A goes on after its lock has ended,
// and B has written meanwhile.
func lateWrite(t *testing.T, s Store) {
	t.Helper()
	nodes := testcluster.RunEmbedded(t, 3)
	a := lock(t, nodes)
	require.NoError(t, s.Write(a.Fence(), "10"))
	expire(t, nodes) // A is suspended for longer than its ttl.
	b := lock(t, nodes)
	require.Greater(t, b.Fence(), a.Fence())
	require.NoError(t, s.Write(b.Fence(), "20"))

	require.NoError(t, a.Err(), "A knows nothing of it")
	require.ErrorIs(t, s.Write(a.Fence(), "11"), s.Stale)
	_, err := s.Read(a.Fence())
	require.ErrorIs(t, err, s.Stale)
	stored(t, s, "20", b.Fence())

	require.NoError(t, s.Write(b.Fence(), "21"), "a holder writes more than once")
	stored(t, s, "21", b.Fence())
}

// writeAfterRead has A write when B has only read. What B then writes comes from what
// it has read: to let A's write in would be to lose it.
func writeAfterRead(t *testing.T, s Store) {
	t.Helper()
	nodes := testcluster.RunEmbedded(t, 3)
	a := lock(t, nodes)
	require.NoError(t, s.Write(a.Fence(), "10"))
	expire(t, nodes)
	b := lock(t, nodes)
	value, err := s.Read(b.Fence())
	require.NoError(t, err)
	require.Equal(t, "10", value)

	require.ErrorIs(t, s.Write(a.Fence(), "11"), s.Stale)
	require.NoError(t, s.Write(b.Fence(), value+"0"))
	stored(t, s, "100", b.Fence())
}

// numbers has fences that are in another order as text, or when they are rounded.
func numbers(t *testing.T, s Store) {
	t.Helper()
	const largest = 1<<53 - 1 // of a lock
	require.NoError(t, s.Write(9, "1"))
	require.NoError(t, s.Write(10, "2"))
	require.ErrorIs(t, s.Write(9, "3"), s.Stale)
	stored(t, s, "2", 10)
	require.NoError(t, s.Write(largest-1, "4"))
	stored(t, s, "4", largest-1)
	require.NoError(t, s.Write(largest, "5"))
	require.ErrorIs(t, s.Write(largest-1, "6"), s.Stale)
	stored(t, s, "5", largest)
}

// badFence has fences that no lock has, such as that of a lock without WithFencing.
func badFence(t *testing.T, s Store) {
	t.Helper()
	require.NoError(t, s.Write(5, "1"))
	for _, fence := range []int64{0, -1, -1 << 63} {
		err := s.Write(fence, "2")
		require.Error(t, err)
		require.NotErrorIs(t, err, s.Stale)
		_, err = s.Read(fence)
		require.Error(t, err)
		require.NotErrorIs(t, err, s.Stale)
	}
	stored(t, s, "1", 5)
}

// A write is one that was accepted. It was somewhere between two ticks of a clock.
type write struct{ began, ended, fence int64 }

// race has many holders write at once. Their fences grow in the long run only, so
// that many writes are accepted and many refused.
func race(t *testing.T, s Store) {
	t.Helper()
	const (
		writers = 8
		writes  = 20
		spread  = 100
	)
	var (
		wg       sync.WaitGroup
		clock    atomic.Int64
		accepted [writers][]write
		largest  [writers]int64
	)
	for i := range writers {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for n := range int64(writes) {
				w := write{fence: 1 + n*spread/5 + rng.Int64N(spread)}
				largest[i] = max(largest[i], w.fence)
				w.began = clock.Add(1)
				err := s.Write(w.fence, strconv.FormatInt(w.fence, 10))
				w.ended = clock.Add(1)
				if err == nil {
					accepted[i] = append(accepted[i], w)
					err = s.readBack(w.fence)
				}
				if err != nil && !errors.Is(err, s.Stale) {
					t.Errorf("fence %d: %v", w.fence, err)
				}
			}
		})
	}
	wg.Wait()

	var all []write
	last := int64(0)
	for i := range writers {
		all = append(all, accepted[i]...)
		last = max(last, largest[i])
	}
	assert.Less(t, len(all), writers*writes, "no write was refused")
	neverDown(t, all)
	// The largest fence is never refused, and nothing is accepted after it.
	stored(t, s, strconv.FormatInt(last, 10), last)
}

// readBack reads as the holder that has written its fence as the value. If it is still
// the latest one, nobody else has.
func (s Store) readBack(fence int64) error {
	value, err := s.Read(fence)
	if err == nil && value != strconv.FormatInt(fence, 10) {
		return fmt.Errorf("it has read %s", value)
	}
	return err
}

// neverDown checks that no write was accepted that began when one with a larger fence
// had ended. Of writes that overlap nobody can tell which one was first.
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

func stored(t *testing.T, s Store, value string, fence int64) {
	t.Helper()
	v, f, err := s.Stored()
	require.NoError(t, err)
	require.Equal(t, value, v)
	require.Equal(t, fence, f)
}

// lock returns a lock of a holder that has a client of its own, as every process has.
func lock(t *testing.T, cluster *testcluster.Cluster) *redlock.Lock {
	t.Helper()
	r := testkit.NewRedlock(t, cluster, redlock.WithFencing(), redlock.WithNodeTimeout(10*time.Second))
	return testkit.TryLock(t, r, []string{resource}, time.Minute)
}

// expire does at once what happens at the end of the ttl.
func expire(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	for _, n := range cluster.Nodes {
		require.NoError(t, n.Del(resource))
	}
}
