package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// resourceCounts are the numbers of resources that are locked at once.
var resourceCounts = []int{1, 2, 5, 10, 20, 50, 100}

// resources measures what a lock of several resources costs.
func resources(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	reached := newAims()
	for _, g := range []int{1, manyGoroutines} {
		w, blocks := s.blocksOf(), (s.blocks+1)/2 // There are many entrants.
		if g > 1 {
			w, blocks = s.turns(g), 1
		}
		r, err := lockSets(s, cluster, w, blocks)
		if err != nil {
			return err
		}
		title := fmt.Sprintf("Lock+unlock of several resources at once, %s, %d nodes: medians of %d rounds", brief.Count(g, "goroutine"), s.nodes, s.rounds)
		if err = errors.Join(out.table(turnsTable(title, nil, measurement{nil, r})), out.table(r.multiplesTable())); err != nil {
			return err
		}
		resourceAims(reached, r, g)
	}
	return reached.report(out)
}

// lockSets has locks of each number of resources taken in turn, with and without fencing.
func lockSets(s settings, cluster *testcluster.Cluster, w work, blocks int) (r results, err error) {
	var entrants []*entrant
	for _, fenced := range []bool{false, true} {
		var opts []redlock.Option
		if fenced {
			opts = append(opts, redlock.WithFencing())
		}
		lib, e := libraries.OpenRedlock(cluster.Addrs(), opts...)
		if e != nil {
			return r, e
		}
		c := client{Name: "redlock"}
		defer closeRedlock(lib)
		for _, number := range resourceCounts {
			c.NewWorker = func() worker {
				return libraries.SetWorker(lib, s.ttl, number)
			}
			e := &entrant{name: resourceName(number, fenced), client: c, nodes: cluster.Nodes, work: w}
			if number != 1 {
				e.base = resourceName(1, fenced)
			}
			entrants = append(entrants, e)
		}
	}
	return takeTurns(entrants, s.rounds, blocks)
}

func resourceName(number int, fenced bool) string {
	if fenced {
		return fmt.Sprintf("%d, fenced", number)
	}
	return fmt.Sprint(number)
}

// resourceAims are about ten resources beside one.
func resourceAims(a *aims, r results, goroutines int) {
	for _, fenced := range []bool{false, true} {
		ten, one := resourceName(10, fenced), resourceName(1, fenced)
		of := func(what string, values []float64) {
			a.atMost(2.5, fmt.Sprintf("%s, %s resources / %s, goroutines: %d", what, ten, one, goroutines), values)
		}
		if goroutines == 1 {
			of("lock p50", r.ratios(ten, one, turn.lockP50))
		} else {
			of("time per lock+unlock", r.ratios(one, ten, turn.rate))
		}
		of("client CPU", r.ratios(ten, one, turn.clientCPU))
	}
}

func closeRedlock(r *redlock.Redlock) { _ = r.Close(context.Background()) }
