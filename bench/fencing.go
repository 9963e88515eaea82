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
func fencing(s settings, out *section) error {
	return costs(s, out, "with fencing", redlock.WithFencing())
}

// quarantine measures what quarantine costs.
func quarantine(s settings, out *section) error {
	return costs(s, out, "with quarantine", redlock.WithQuarantine(s.ttl))
}

// costs measures the same lock with and without an option.
func costs(s settings, out *section, name string, opt redlock.Option) (err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if name == "with quarantine" {
		if err = admit(cluster.Addrs(), opt); err != nil {
			return err
		}
	}
	these := []library{
		libraries.Ours(name, "", opt), libraries.Ours("without", ""),
	}
	report := newReport(out, fmt.Sprintf("Lock+unlock with %d nodes: medians of %d rounds of %v for each, or of %d blocks of %d locks for one caller",
		s.nodes, s.rounds, s.time, s.blocks, s.blockSize), name, "goroutines")
	for _, g := range optionGoroutines {
		w, blocks := s.turns(g), 1
		if g == 1 {
			w, blocks = s.blocksOf(), s.blocks
		}
		r, err := compare(these, on(cluster.Addrs(), s.ttl, g), cluster.Nodes, w, s.rounds, blocks)
		if err != nil {
			return err
		}
		if err = report.add(r, fmt.Sprint(g)); err != nil {
			return err
		}
	}
	report.end()
	return nil
}

// admit ends the quarantine of new nodes.
func admit(addrs []string, opt redlock.Option) error {
	r, err := libraries.OpenRedlock(addrs, opt)
	if err != nil {
		return err
	}
	return errors.Join(r.Admit(context.Background(), addrs...), r.Close(context.Background()))
}
