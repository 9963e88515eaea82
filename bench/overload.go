package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

const (
	// redsyncCallers is the largest number of callers that redsync is measured with: each of
	// them needs a connection to each node, and servers take 10 000.
	redsyncCallers = 1000

	// keptTTL is that of the lock that is kept throughout.
	keptTTL = 3 * time.Second

	// extendEvery is the pause between two extensions that are measured.
	extendEvery = 10 * time.Millisecond
)

// A crowd is what so many callers of one client did in one round.
type crowd struct {
	rate       float64 // lock+unlock/s
	failed     float64 // locks/s that were not got
	unlocks    int64   // releases that failed
	extensions []time.Duration
	unextended int64 // extensions that failed
}

// crowds are by client and number of callers. There is one each round.
type crowds map[string][]crowd

// overload measures what is left of the throughput when far more callers want locks
// than the nodes can serve, and what becomes of locks that are held meanwhile.
func overload(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	r, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	kept, err := r.TryLock(context.Background(), []string{"kept"}, keptTTL)
	if err != nil {
		return err
	}
	start := time.Now()
	keeping := kept.KeepAlive(context.Background())

	all := make(crowds)
	for round := range s.rounds {
		for _, n := range s.callers {
			all.gather(s, libraries.Of("redlock", r, s.ttl), n, round)
			if n > redsyncCallers {
				continue
			}
			peer, openErr := peers["redsync"].Open(withConnections(cluster.Addrs(), s.ttl, n))
			if openErr != nil {
				return openErr
			}
			peer.Name = "redsync"
			all.gather(s, peer, n, round)
			peer.Close()
		}
	}
	if err = all.report(s, out); err != nil {
		return err
	}
	state := "held throughout"
	if keeping.Err() != nil {
		state = fmt.Sprintf("LOST: %v", context.Cause(keeping))
	}
	held := time.Since(start).Round(time.Second)
	err = out.note("The lock with a ttl of %v that was kept for %v: %s.", keptTTL, held, state)
	return errors.Join(err, kept.Unlock(context.Background()))
}

func crowdName(client string, callers int) string { return client + " " + strconv.Itoa(callers) }

// gather has so many callers lock and unlock, each a key of its own, as fast as they
// can. One that has failed comes back after 50 to 150 ms.
func (all crowds) gather(s settings, c client, callers, round int) {
	runtime.GC()
	of, cr := crowdName(c.Name, callers), crowd{}
	prefix := fmt.Sprintf("%s:%d:", of, round)
	var counts, stop atomic.Bool
	var locked, failed, unreleased atomic.Int64
	var wg sync.WaitGroup
	ctx := context.Background()
	for i := range callers {
		wg.Go(func() {
			for w, key := c.NewWorker(), prefix+strconv.Itoa(i); !stop.Load(); {
				got := w.Try(ctx, key) == nil
				released := got && w.Unlock(ctx) == nil
				switch {
				case !counts.Load():
				case !got:
					failed.Add(1)
				case released:
					locked.Add(1)
				default:
					unreleased.Add(1)
				}
				if !got {
					time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
				}
			}
		})
	}
	time.Sleep(s.warmUp)
	counts.Store(true)
	cr.extensions, cr.unextended = extensions(c, prefix+"extended", s.contestTime)
	counts.Store(false)
	stop.Store(true)
	cr.rate, cr.failed = float64(locked.Load())/s.contestTime.Seconds(), float64(failed.Load())/s.contestTime.Seconds()
	cr.unlocks = unreleased.Load()
	wg.Wait()
	all[of] = append(all[of], cr)
}

// extensions extends a lock again and again, and returns how long that took.
func extensions(c client, key string, length time.Duration) (took []time.Duration, failed int64) {
	ctx := context.Background()
	end := time.Now().Add(length)
	wk := c.NewWorker().(libraries.Extender)
	for err := errors.New("not locked"); err != nil; err = wk.Try(ctx, key) {
		if time.Now().After(end) {
			return nil, 1
		}
	}
	for time.Now().Before(end) {
		start := time.Now()
		if err := wk.Extend(ctx); err != nil {
			failed++
		}
		took = append(took, time.Since(start))
		time.Sleep(extendEvery)
	}
	_ = wk.Unlock(ctx)
	slices.Sort(took)
	return took, failed
}

// report writes a table and a plot.
func (all crowds) report(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Callers in a closed loop, %d rounds of %v after %v; medians of the rounds. "+
		"A share is the throughput divided by the best of the same round with 64 to 256 callers",
		s.rounds, s.contestTime, s.warmUp),
		"client", "callers", "op/s", "share", "share in the worst round", "locks/s not got",
		"failed unlocks", "extension p50", "p99", "longest", "failed extensions")
	c := chart{title: "More callers than the nodes can serve", x: "callers"}
	for _, name := range peerNames {
		for _, n := range s.callers {
			if rounds := all[crowdName(name, n)]; len(rounds) > 0 {
				t.Add(append([]string{name, strconv.Itoa(n)}, cellsOfCrowd(rounds, all.best(s, name))...)...)
				c.add(name, plotter.XY{X: float64(n), Y: median(each(rounds, crowd.perSecond))})
			}
		}
	}
	return errors.Join(out.table(t), out.plot("overload", c))
}

// best are the best rates that a client reached in each round with 64 to 256 callers.
func (all crowds) best(s settings, client string) []float64 {
	best := make([]float64, s.rounds)
	for _, n := range s.callers {
		if n < 64 || n > 256 {
			continue
		}
		for round, cr := range all[crowdName(client, n)] {
			best[round] = max(best[round], cr.rate)
		}
	}
	return best
}

// cellsOfCrowd returns the cells of what one client did with one number of callers.
func cellsOfCrowd(rounds []crowd, best []float64) []string {
	shares := ratios(each(rounds, crowd.perSecond), best)
	worst := "-"
	if len(shares) > 0 {
		worst = number(slices.Min(shares), "%.2f")
	}
	var unlocks, unextended int64
	for _, cr := range rounds {
		unlocks, unextended = unlocks+cr.unlocks, unextended+cr.unextended
	}
	at := func(p int) string {
		of := func(cr crowd) float64 { return micros(percentile(cr.extensions, p)) / 1000 }
		return number(median(each(rounds, of)), "%.1f ms")
	}
	return []string{
		number(median(each(rounds, crowd.perSecond)), "%.0f"), number(median(shares), "%.2f"), worst,
		fmt.Sprintf("%.0f", median(each(rounds, func(cr crowd) float64 { return cr.failed }))),
		strconv.FormatInt(unlocks, 10), at(50), at(99), at(100), strconv.FormatInt(unextended, 10),
	}
}

func (c crowd) perSecond() float64 { return c.rate }
