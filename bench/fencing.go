package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// optionGoroutines are the numbers of goroutines that an option is measured with.
var optionGoroutines = []int{64, 8, 1}

// fencing measures what a fence costs.
func fencing(s settings, out *section, cluster *testcluster.Cluster) error {
	return costs(s, out, cluster, "with fencing", redlock.WithFencing())
}

// quarantine measures what quarantine costs.
func quarantine(s settings, out *section, cluster *testcluster.Cluster) error {
	opt := redlock.WithQuarantine(s.ttl)
	r, err := libraries.OpenRedlock(cluster.Addrs(), opt)
	if err != nil {
		return err
	}
	err = r.Admit(context.Background(), cluster.Addrs()...) // It ends the quarantine of new nodes.
	if err = errors.Join(err, r.Close(context.Background())); err != nil {
		return err
	}
	return costs(s, out, cluster, "with quarantine", opt)
}

// costs measures the same lock with and without an option.
func costs(s settings, out *section, cluster *testcluster.Cluster, name string, opt redlock.Option) error {
	these := []library{
		libraries.Ours(name, "", opt), libraries.Ours("without", ""),
	}
	report := &report{out: out, setting: "goroutines"}
	report.title = fmt.Sprintf("Lock+unlock with %d nodes: medians of %d rounds of %v for each, or of %d blocks of %d locks for one caller",
		s.nodes, s.rounds, s.time, s.blocks, s.blockSize)
	for _, g := range optionGoroutines {
		w, blocks := s.turns(g), 1
		if g == 1 {
			w, blocks = s.blocksOf(), s.blocks
		}
		r, err := compare(these, on(cluster.Addrs(), s.ttl, g), cluster.Nodes, w, s.rounds, blocks)
		if err != nil {
			return err
		}
		if err = report.add(r, g); err != nil {
			return err
		}
	}
	report.end()
	return nil
}
