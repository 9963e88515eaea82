package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Clients that start at once, each with a delay of its own to every node, of which two may be dead: plain Redlock has
// no winner in about 20 to 70 % of these rounds.
func TestSplitVoteIsWonByOneOfSeveralThatStartTogether(t *testing.T) {
	times := rounds(1000, 5)
	if raceEnabled {
		times = min(times, 100)
	}
	for _, nodes := range [][2]int{{3, 0}, {4, 0}, {5, 0}, {5, 2}} {
		for _, clients := range []int{2, 3, 5} {
			n, dead := nodes[0], nodes[1]
			runInBubble(t, fmt.Sprintf("%d clients on %d nodes, %d dead", clients, n, dead), n, func(t *testing.T, c *testcluster.Cluster) {
				c.SetSeed(uint64(100*clients + n))
				rs := make([]*redlock.Redlock, clients)
				for i := range rs {
					rs[i] = newRedlock(t, c)
					warm(t, rs[i])
				}
				require.NoError(t, c.Slow(0, 2*time.Millisecond))
				require.NoError(t, c.First(dead).Stop())
				time.Sleep(10 * time.Second)
				splits := func() (n int64) {
					for _, r := range rs {
						n += r.Stats().Splits
					}
					return n
				}
				splittable := clients > 2 || n%2 == 0 || dead > 0 // Else one of them always has a majority.
				for round := 0; round < times || splittable && splits() == 0 && round < 1000; round++ {
					winner := startTogether(t, rs, fmt.Sprint("r", round))
					if winner == nil {
						t.Errorf("round %d: nobody won", round)
						continue
					}
					require.NoError(t, winner.Unlock(t.Context()))
					time.Sleep(100 * time.Millisecond) // Fake time: all releases have arrived.
					for _, n := range c.Nodes[dead:] {
						require.Empty(t, keys(t, n))
					}
				}
				if splittable {
					assert.Positive(t, splits(), "no vote was split: the test shows nothing")
				}
			})
		}
	}
}

// Where round trips are long, those that have given their votes back have to stay away for longer.
func TestSplitVoteIsWonOverLongWays(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(10*time.Millisecond, 20*time.Millisecond))
		rs := []*redlock.Redlock{newRedlock(t, c), newRedlock(t, c)}
		for _, r := range rs {
			warm(t, r)
		}
		nobody := 0
		for round := range 150 {
			if winner := startTogether(t, rs, fmt.Sprint("r", round)); winner == nil {
				nobody++
			} else {
				require.NoError(t, winner.Unlock(t.Context()))
			}
			time.Sleep(time.Second)
		}
		assert.Positive(t, rs[0].Stats().Splits)
		assert.LessOrEqual(t, nobody, 3, "it happens once in a thousand rounds; with pauses of at most 20 ms, in 60")
	})
}

// startTogether has all try at once and returns the lock of the one that won,
// if there was one. More than one fails the test.
func startTogether(t *testing.T, rs []*redlock.Redlock, resource string) *redlock.Lock {
	t.Helper()
	start := make(chan struct{})
	won := make([]*redlock.Lock, len(rs))
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() {
			<-start
			l, err := r.TryLock(context.Background(), []string{resource}, ttl)
			if err == nil {
				won[i] = l
				return
			}
			assert.ErrorIs(t, err, redlock.ErrTaken)
		})
	}
	close(start)
	wg.Wait()
	var winner *redlock.Lock
	for _, l := range won {
		if l != nil {
			assert.Nil(t, winner, "two winners")
			winner = l
		}
	}
	return winner
}

// The nodes that are asked again get what is left of the time for the split, not a node timeout
// of their own.
func TestSplitVoteLeavesThoseThatAreAskedAgainTheRestOfTheTime(t *testing.T) {
	withWarm(t, 4, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for i, n := range c.Nodes[:2] {
			require.NoError(t, n.Set("a", fmt.Sprint("loser", i), time.Minute))
			asked := 0
			require.NoError(t, n.OnCommand(func(cmd string, args []string) {
				if !isLockRequest(cmd, args) {
					return
				}
				if asked++; asked > 1 {
					time.Sleep(time.Second)
				}
			}))
		}
		start := time.Now()
		refused(t, redlock.ErrTaken, r, []string{"a"}, ttl)
		assert.Equal(t, 100*time.Millisecond, time.Since(start).Round(10*time.Millisecond))
		assert.EqualValues(t, 1, r.Stats().Splits)
		time.Sleep(5 * time.Second)
		assert.Empty(t, keys(t, c.Nodes[3]))
	})
}

func TestSplitLimit(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, pace, want time.Duration }{
		{250 * ms, ms, 100 * ms},
		{250 * ms, 20 * ms, 160 * ms},
		{250 * ms, 100 * ms, 250 * ms},
		{50 * ms, 20 * ms, 50 * ms},
		{time.Minute, 20 * ms, 160 * ms},
	} {
		assert.Equal(t, c.want, redlock.SplitLimit(c.timeout, c.pace), "node timeout %v, pace %v", c.timeout, c.pace)
	}
}
