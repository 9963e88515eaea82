package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A lossy is a setting in which some of what is sent comes later, as TCP sends lost packets
// again: that is no load, and fewer rounds would not make it rarer.
type lossy struct {
	callers     int
	trip        time.Duration
	nodes, down int
	share       float64 // of what is sent
	lag         time.Duration
}

func (s lossy) String() string {
	return fmt.Sprintf("%d callers, %v, %d of %d down, %.1f%% %v later", s.callers, s.trip, s.down, s.nodes, 100*s.share, s.lag)
}

// lossyGrid is all settings in which the admission is compared with none.
func lossyGrid() (all []lossy) {
	type loss struct {
		share float64
		lag   time.Duration
	}
	const little, long = 60 * time.Millisecond, 200 * time.Millisecond
	for _, l := range []loss{{0.001, little}, {0.01, little}, {0.03, little}, {0.001, long}, {0.003, long}, {0.01, long}} {
		for _, nodes := range [][2]int{{3, 0}, {3, 1}, {5, 2}} {
			for _, trip := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
				for _, callers := range []int{100, 200, 400, 800} {
					all = append(all, lossy{callers, trip, nodes[0], nodes[1], l.share, l.lag})
				}
			}
		}
	}
	return all
}

// A measurement leaves out the first round trips, in which an admission learns how many callers
// may ask the nodes. It ends after so many round trips, if there were enough locks by then, and
// in any case when there were losses enough.
const (
	firstTrips   = 10
	leastTrips   = 50
	enoughLocks  = 10_000
	enoughLosses = 2 * time.Second
)

// run returns how many locks the callers get in a second, after the first round trips, and how
// many calls were turned away, these included. With open it is as without an admission.
func (s lossy) run(t *testing.T, open bool, seed uint64) (rate float64, turnedAway int64) {
	t.Helper()
	inBubble(t, s.nodes, func(t *testing.T, c *testcluster.Cluster) {
		c.SetSeed(seed)
		r := newRedlock(t, c)
		for _, n := range c.Nodes {
			n.Proxy().SetDelay(s.trip/2, s.trip/2)
		}
		warm(t, r)
		for i, n := range c.Nodes {
			n.Proxy().Lag(s.share, s.lag)
			if i < s.down {
				_ = n.Stop()
			}
		}
		if open {
			redlock.Admission(r).Open()
		}
		var got, away atomic.Int64
		var stop atomic.Bool
		var wg sync.WaitGroup
		for i := range s.callers {
			wg.Go(func() {
				for !stop.Load() {
					l, err := r.TryLock(context.Background(), []string{strconv.Itoa(i)}, time.Minute)
					if err == nil {
						got.Add(1)
						_ = l.Unlock(context.Background())
						continue
					}
					if redlock.IsOverload(err) {
						away.Add(1)
					}
					time.Sleep(s.trip) // One that fails at once would not let the fake time go on.
				}
			})
		}
		time.Sleep(firstTrips * s.trip)
		before, start := got.Load(), time.Now()
		for time.Since(start) < enoughLosses && (got.Load()-before < enoughLocks || time.Since(start) < leastTrips*s.trip) {
			time.Sleep(s.trip)
		}
		rate, turnedAway = float64(got.Load()-before)/time.Since(start).Seconds(), away.Load()
		stop.Store(true)
		wg.Wait()
	})
	return rate, turnedAway
}

// Packets that are lost are no overload: hardly anybody is turned away for them.
func TestOverloadIsNotSeenInALossyWay(t *testing.T) {
	for _, s := range []lossy{
		{400, 40 * time.Millisecond, 3, 0, 0.03, 60 * time.Millisecond},
		{200, 10 * time.Millisecond, 3, 1, 0.01, 60 * time.Millisecond},
	}[rounds(0, 1):] {
		t.Run(s.String(), func(t *testing.T) {
			rate, away := s.run(t, false, rand.Uint64())
			t.Logf("%.0f/s", rate)
			assert.LessOrEqual(t, away, int64(s.callers/10))
		})
	}
	// See docs/testing.md.
	if every := int(envNumber(t, "REDLOCK_LOSSY", 0)); every > 0 {
		measureLossy(t, every)
	}
}

// measureLossy compares the throughput in one setting of so many, drawn by chance, with that
// without an admission.
func measureLossy(t *testing.T, every int) {
	t.Helper()
	var shares []float64
	turned := 0
	grid := lossyGrid()
	for _, i := range rand.Perm(len(grid))[:max(len(grid)/every, 1)] {
		s, seed := grid[i], rand.Uint64()
		none, _ := s.run(t, true, seed)
		rate, away := s.run(t, false, seed+1)
		shares = append(shares, rate/none)
		if away > 0 {
			turned++
		}
		t.Logf("%.2f of %.0f/s, %d turned away: %v", rate/none, none, away, s)
	}
	slices.Sort(shares)
	t.Logf("%d settings: least %.2f, a tenth below %.2f, median %.2f; turned away in %d",
		len(shares), shares[0], shares[len(shares)/10], shares[len(shares)/2], turned)
}
