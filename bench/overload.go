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

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

// crowdSizes are the numbers of callers. With redsync each needs a connection to each node, and servers take 10 000.
var crowdSizes = []int{64, 256, 1000, 4000, 16000}

const (
	redsyncCallers = 1000

	// extendEvery is the pause between two extensions that are measured.
	extendEvery = 10 * time.Millisecond
)

// A crowd is what so many callers of one client did in one round.
type crowd struct {
	rate, failed         float64 // lock+unlock/s, and locks/s that were not got
	unlocks, unextended  int64   // releases and extensions that failed
	median, p99, longest float64 // ms that an extension took
}

// overload measures what is left of the throughput when far more callers want locks than the nodes can serve, and what
// becomes of locks that are held meanwhile.
func overload(s settings, out *section, cluster *testcluster.Cluster) error {
	t := tables.New(fmt.Sprintf("Callers in a closed loop, medians of %d rounds of %v after %v. A share is the throughput "+
		"divided by the best with 64 or 256 callers. A kept lock has a ttl of %v", s.rounds, s.contestTime, s.warmUp, s.ttl),
		"client", "callers", "op/s", "share", "locks/s not got", "failed unlocks",
		"extension p50 ms", "p99 ms", "longest ms", "failed extensions", "a kept lock")
	for _, l := range []library{libraries.Redlock, libraries.RedsyncOn("redigo")} {
		best := 0.0
		for _, callers := range few(s, crowdSizes) {
			if l.Name != libraries.Redlock.Name && callers > redsyncCallers {
				break
			}
			rounds, kept, err := crowds(s, l, cluster.Addrs(), callers)
			if err != nil {
				return err
			}
			rate := median(each(rounds, func(c crowd) float64 { return c.rate }))
			if callers <= 256 {
				best = max(best, rate)
			}
			t.Add(slices.Concat([]string{l.Name, strconv.Itoa(callers), number(rate, "%.0f"), number(rate/best, "%.2f")},
				cellsOfCrowds(rounds), []string{kept})...)
		}
	}
	return out.table(t)
}

func cellsOfCrowds(rounds []crowd) []string {
	var unlocks, unextended int64
	for _, c := range rounds {
		unlocks, unextended = unlocks+c.unlocks, unextended+c.unextended
	}
	typical := func(of func(crowd) float64, format string) string { return number(median(each(rounds, of)), format) }
	return []string{
		typical(func(c crowd) float64 { return c.failed }, "%.0f"), strconv.FormatInt(unlocks, 10),
		typical(func(c crowd) float64 { return c.median }, "%.1f"), typical(func(c crowd) float64 { return c.p99 }, "%.1f"),
		typical(func(c crowd) float64 { return c.longest }, "%.1f"), strconv.FormatInt(unextended, 10),
	}
}

// crowds has so many callers of a new client work for each round, beside a lock that the library keeps, if it keeps any.
func crowds(s settings, l library, addrs []string, callers int) (rounds []crowd, kept string, err error) {
	c, err := l.Open(opening{Addrs: addrs, TTL: s.ttl, Connections: 4*callers + 16})
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	holder := c.NewWorker().(libraries.Waiter)
	keeper, keeps := holder.(libraries.Keeper)
	if keeps {
		if err = holder.Try(context.Background(), "kept"); err != nil {
			return nil, "", err
		}
		keeper.Keep()
	}
	for round := range s.rounds {
		rounds = append(rounds, crowdOf(s, c, callers, fmt.Sprintf("%s:%d:%d:", c.Name, callers, round)))
	}
	if !keeps {
		return rounds, "-", nil
	}
	select {
	case <-holder.Lost():
		return rounds, "LOST", nil
	default:
		return rounds, "held", holder.Unlock(context.Background())
	}
}

// crowdOf has so many callers lock and unlock, each a key of its own, as fast as they can. One that has failed comes back
// after 50 to 150 ms.
func crowdOf(s settings, c client, callers int, prefix string) crowd {
	runtime.GC()
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
	took, unextended := extensions(c, prefix+"extended", s.contestTime)
	counts.Store(false)
	stop.Store(true)
	at := func(p int) float64 { return float64(percentile(took, p)) / float64(time.Millisecond) }
	cr := crowd{
		float64(locked.Load()) / s.contestTime.Seconds(), float64(failed.Load()) / s.contestTime.Seconds(),
		unreleased.Load(), unextended, at(50), at(99), at(100),
	}
	wg.Wait()
	return cr
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
