package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

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

// overloadClients are the libraries that are compared.
var overloadClients = []string{"redlock", "redsync"}

// A crowd is what so many callers of one client did in one round.
type crowd struct {
	rate       float64 // lock+unlock/s
	failed     float64 // locks/s that were not got
	unlocks    int     // releases that failed
	extensions []time.Duration
	unextended int64 // extensions that failed
}

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

	crowds := make(map[string][]crowd) // by client and callers; one each round
	for round := range s.rounds {
		for _, n := range s.callers {
			mine := ours("redlock", r, s.ttl)
			crowds[crowdName(mine.Name, n)] = append(crowds[crowdName(mine.Name, n)], gather(s, mine, n, round))
			if n > redsyncCallers {
				continue
			}
			peer, e := newRedsync(cluster.Addrs(), s.ttl, n)
			if e != nil {
				return e
			}
			peer.Name = "redsync"
			crowds[crowdName(peer.Name, n)] = append(crowds[crowdName(peer.Name, n)], gather(s, peer, n, round))
			peer.Close()
		}
	}
	if err = printCrowds(out, s, crowds); err != nil {
		return err
	}
	state := "held throughout"
	if keeping.Err() != nil {
		state = fmt.Sprintf("LOST: %v", context.Cause(keeping))
	}
	err = out.note("The lock with a ttl of %v that was kept for %v: %s.", keptTTL, time.Since(start).Round(time.Second), state)
	return errors.Join(err, out.plot("overload", "Throughput against the number of callers", overloadChart(s, crowds)), kept.Unlock(context.Background()))
}

func crowdName(client string, callers int) string { return client + " " + strconv.Itoa(callers) }

// gather has so many callers lock and unlock, each a key of its own, as fast as they
// can. One that has failed comes back after 50 to 150 ms.
func gather(s settings, c client, callers, round int) crowd {
	runtime.GC()
	prefix := fmt.Sprintf("%s:%d:%d:", c.Name, callers, round)
	group := startCrew(c, callers, prefix, false, func() { time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond)) })
	time.Sleep(s.warmUp)
	start := time.Now()
	var cr crowd
	cr.extensions, cr.unextended = extensions(c, prefix+"extended", s.overloadTime)
	p := newPhase(group.end(), start, start.Add(s.overloadTime))
	cr.rate, cr.failed = float64(len(p.locked))/p.length.Seconds(), float64(p.failed)/p.length.Seconds()
	cr.unlocks = p.left
	time.Sleep(pause)
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

func printCrowds(out *section, s settings, crowds map[string][]crowd) error {
	t := tables.New(fmt.Sprintf("Callers in a closed loop, %d rounds of %v after %v; medians of the rounds. A share is the throughput divided by the best of the same round with 64 to 256 callers",
		s.rounds, s.overloadTime, s.warmUp),
		"client", "callers", "op/s", "share", "share in the worst round", "locks/s not got",
		"failed unlocks", "extension p50", "p99", "longest", "failed extensions")
	for _, name := range overloadClients {
		for _, n := range s.callers {
			if rows := crowds[crowdName(name, n)]; len(rows) > 0 {
				t.Add(append([]string{name, strconv.Itoa(n)}, crowdCells(s, crowds, name, rows)...)...)
			}
		}
	}
	return out.table(t)
}

// crowdCells returns the cells of what one client did with one number of callers.
func crowdCells(s settings, crowds map[string][]crowd, name string, rows []crowd) []string {
	var shares []float64
	for round, cr := range rows {
		if best := bestRate(s, crowds, name, round); best > 0 {
			shares = append(shares, cr.rate/best)
		}
	}
	worst := "-"
	if len(shares) > 0 {
		worst = number(slices.Min(shares), "%.2f")
	}
	var unlocks int
	var unextended int64
	for _, cr := range rows {
		unlocks, unextended = unlocks+cr.unlocks, unextended+cr.unextended
	}
	at := func(p int) string {
		return number(median(each(rows, func(cr crowd) float64 { return micros(percentile(cr.extensions, p)) / 1000 })), "%.1f ms")
	}
	return []string{
		number(median(each(rows, crowdRate)), "%.0f"), number(median(shares), "%.2f"), worst,
		fmt.Sprintf("%.0f", median(each(rows, func(cr crowd) float64 { return cr.failed }))),
		strconv.Itoa(unlocks), at(50), at(99), at(100), strconv.FormatInt(unextended, 10),
	}
}

func crowdRate(c crowd) float64 { return c.rate }

// bestRate is the best that the client reached in this round with 64 to 256 callers;
// 0 if there were none.
func bestRate(s settings, crowds map[string][]crowd, client string, round int) (best float64) {
	for _, n := range s.callers {
		if rows := crowds[crowdName(client, n)]; n >= 64 && n <= 256 && round < len(rows) {
			best = max(best, rows[round].rate)
		}
	}
	return best
}
