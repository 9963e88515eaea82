package redlock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// edges are numbers that are no fence, or hardly one; other lies are not numbers.
var (
	edges = []int64{0, 1, 2, -1, -1000, fences.Max - 1, fences.Max, fences.Max + 1, math.MaxInt64, math.MinInt64}
	lies  = []string{
		"$-1\r\n", "*-1\r\n", "$4\r\n1000\r\n", "$0\r\n\r\n", "+OK\r\n", "+1000\r\n", ":1000.0\r\n", ":+1000\r\n",
		"*2\r\n:5\r\n$3\r\nabc\r\n", "*2\r\n:-1\r\n$0\r\n\r\n", "*2\r\n:1000\r\n:1000\r\n", "*2\r\n$3\r\nabc\r\n:5\r\n",
		"*3\r\n:5\r\n$3\r\nabc\r\n$3\r\nwhy\r\n", "*3\r\n:5\r\n$3\r\nabc\r\n:1000\r\n",
		"*0\r\n", "*1\r\n:1000\r\n", "*1\r\n*1\r\n:1000\r\n", "*2\r\n*1\r\n:1000\r\n$3\r\nabc\r\n",
		"-ERR x\r\n", "-OOM x\r\n", "-NOSCRIPT x\r\n", "-NOFENCE x\r\n", "-LOADING x\r\n", "-\r\n", "-1000\r\n",
	}
)

// liarsMode is what the first byte of an input says.
type liarsMode struct {
	fencing, waits, pair bool
	nodes                int
	resources            []string
}

func newLiarsMode(b byte) liarsMode {
	m := liarsMode{
		fencing: b&1 == 0, nodes: []int{1, 3, 5, 7}[b>>1&3],
		waits: b&8 != 0, pair: b&16 != 0, resources: []string{"a"},
	}
	if b&32 != 0 {
		m.resources = append(m.resources, "b")
	}
	return m
}

// tryLiars takes locks from nodes that answer as the scripts say. Whatever that is, a
// quorum has said exactly the fence of a lock. It returns how many were got, and how
// many attempts took a raise.
func tryLiars(t *testing.T, mode byte, scripts ...[]byte) (got int, raised int64) {
	t.Helper()
	m := newLiarsMode(mode)
	synctest.Test(t, func(t *testing.T) {
		nodes, liars := make([]Node, m.nodes), make([]*liar, m.nodes)
		for i := range nodes {
			liars[i] = &liar{script: scripts[i%len(scripts)], acked: map[string][]int64{}}
			nodes[i] = Node{Name: fmt.Sprint("node", i), Pool: liars[i].pool()}
		}
		opts := []Option{WithRetryCount(2)}
		if m.fencing {
			opts = append(opts, WithFencing())
		}
		r, err := New(nodes, opts...)
		require.NoError(t, err)
		calls := 1
		if m.pair {
			calls = 2
		}
		locked := make([]*Lock, calls)
		var all sync.WaitGroup
		for i := range locked {
			all.Go(func() { locked[i] = lockFromLiars(t, m, r, liars) })
		}
		all.Wait()
		for _, l := range locked {
			if l != nil {
				got++
			}
		}
		raised = r.Stats().Raised
		require.NoError(t, r.Close(context.Background()))
		for _, n := range liars {
			for n.serving.Load() > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	return got, raised
}

// lockFromLiars makes one call, and looks at the lock that it may return.
func lockFromLiars(t *testing.T, m liarsMode, r *Redlock, liars []*liar) *Lock {
	t.Helper()
	lock := r.TryLock
	if m.waits {
		lock = r.Lock
	}
	l, err := lock(context.Background(), m.resources, ttl)
	if err != nil {
		return nil
	}
	fence, counts := l.Fence(), int64(1) // What is a yes without fencing.
	if m.fencing {
		counts = fence
	}
	acks := 0
	for _, n := range liars {
		n.mu.Lock()
		if slices.Contains(n.acked[l.Token()], counts) {
			acks++
		}
		n.mu.Unlock()
	}
	if m.fencing {
		checkf(t, fence >= 1 && fence <= fences.Max, "the fence is %d", fence)
	} else {
		checkf(t, fence == 0, "the fence is %d without fencing", fence)
	}
	checkf(t, acks >= r.need, "only %d nodes have said %d", acks, counts)
	_ = l.Extend(context.Background(), ttl)
	checkf(t, l.Fence() == fence, "the fence was %d and became %d", fence, l.Fence())
	_ = l.Unlock(context.Background())
	return l
}

// checkf is for goroutines of a test, which must not end it.
func checkf(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// liarsSeeds are inputs that show what the bytes are for.
var liarsSeeds = []struct {
	mode    byte
	scripts [5]string
}{
	{2, [5]string{}}, // honest
	{2, [5]string{"\x60", "\x40", "\x40"}},
	{2, [5]string{"\x60\x60", "\x61\x60", "\x62\x60"}},                         // all differ, as do the raises
	{4, [5]string{"\x60\x80", "\x61\x81", "\x62\x85", "\x90", "\xdc\x60"}},     // a late one
	{4, [5]string{"\x60", "\xc1", "\xc2\x40", "\xc8\x40", "\xcd\x40"}},         // extra, missing, the end
	{10, [5]string{"\x98\x40", "\x98\x40", "\x98\x60\x40"}},                    // refused, then in line
	{10, [5]string{"\x98\x98\x60", "\x98\x98\x61", "\x98\x98\x62"}},            // waits twice
	{6, [5]string{"\xdc\x64", "\x86", "\x87", "\x88", "\xff\x60"}},             // more than five nodes
	{18, [5]string{"\xa4\x60", "\xa5\x61", "\xa6\x62\x40"}},                    // errors, two callers
	{34, [5]string{"\x60\x61\x62", "\x61\x61\x61", "\x62\x60\x60"}},            // two resources
	{3, [5]string{"\x60", "\x81", "\x82"}},                                     // without fencing
	{11, [5]string{"\x98\x81", "\x98\x81", "\x98\x82"}},                        // the same, waiting
	{0, [5]string{"\xd4\x05:7\r\n:", "", ""}},                                  // raw
	{2, [5]string{"\xdd\x64\x60", "\xde\x63\x60", "\xdf\x62\x61\xdd\x60\x60"}}, // all late
}

func FuzzFence(f *testing.F) {
	for _, s := range liarsSeeds {
		f.Add(s.mode, []byte(s.scripts[0]), []byte(s.scripts[1]), []byte(s.scripts[2]), []byte(s.scripts[3]), []byte(s.scripts[4]))
	}
	f.Fuzz(func(t *testing.T, mode byte, a, b, c, d, e []byte) {
		if len(a)+len(b)+len(c)+len(d)+len(e) > 1<<12 {
			t.Skip("would only take longer")
		}
		tryLiars(t, mode, a, b, c, d, e)
	})
}

// The same without a fuzzer.
func TestFenceWhateverTheReplies(t *testing.T) {
	seeds := uint64(rounds(3000, 300))
	if testcluster.RaceEnabled {
		seeds = min(seeds, 500)
	}
	got, raised := 0, int64(0)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0))
		scripts := make([][]byte, 5)
		for i := range scripts {
			scripts[i] = make([]byte, rng.IntN(8))
			for j := range scripts[i] {
				if scripts[i][j] = byte(rng.IntN(256)); rng.IntN(2) == 0 {
					scripts[i][j] = byte(64 + rng.IntN(64))
				}
			}
		}
		g, r := tryLiars(t, byte(rng.IntN(64)), scripts...)
		got, raised = got+g, raised+r
		require.False(t, t.Failed(), "seed %d", seed)
	}
	t.Logf("%d locks from %d sets of liars, %d raises", got, seeds, raised)
	require.Greater(t, got, int(seeds)/10)
	require.Greater(t, raised, int64(seeds)/10)
}
